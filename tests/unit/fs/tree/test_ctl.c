/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of `ctl`. */
/* modules: fs/tree/ctl.c vm/base/problem.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fs/tree/ctl.h"

static struct ctl_order verbs[CTL_VERBS_MAX];
static size_t nverbs;
static struct problem why;

static int parse(const char *text)
{
	return ctl_parse(text, strlen(text), CTL_SESSION, verbs, &nverbs, &why);
}

static void test_each_verb(void **state)
{
	(void)state;
	for (int v = 0; v < CTL_NVERBS; v++) {
		const bool jobs = v == CTL_START || v == CTL_SIGNAL;

		const bool named = v == CTL_CHECKPOINT || v == CTL_RESTORE || v == CTL_REPLAY;

		assert_int_equal(parse(ctl_verb_str((enum ctl_verb)v)),
				 jobs || named ? -EINVAL : 0);
		if (jobs || named)
			continue;
		assert_int_equal(nverbs, 1);
		assert_int_equal(verbs[0].verb, v);
	}
}

static void test_replay(void **state)
{
	static const char *const bad[] = {
		"replay",    "replay 0",	  "replay -1",
		"replay x",  "replay 1 2",	  "replay 1x",
		"replays 1", "replay 4294967296", "replay 99999999999999999999",
		"replay +1"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(parse(bad[i]), -EINVAL);
	assert_int_equal(parse("replay 7\n replay \t 4294967295 \r\n"), 0);
	assert_int_equal(nverbs, 2);
	assert_int_equal(verbs[0].verb, CTL_REPLAY);
	assert_int_equal(verbs[0].run, 7);
	assert_int_equal(verbs[1].run, 4294967295u);
}

static int job(const char *text)
{
	return ctl_parse(text, strlen(text), CTL_JOB, verbs, &nverbs, &why);
}

static void test_jobs(void **state)
{
	static const struct {
		const char *text;
		int sig;
	} signals[] = {{"signal TERM", 15},   {"signal SIGHUP", 1}, {"signal usr1", 10},
		       {"signal  \t 15", 15}, {"signal", 0},	    {"signal 0", 0},
		       {"signal 65", 0},      {"signal -9", 0},	    {"signal SIG", 0},
		       {"signal TERM X", 0},  {"signals TERM", 0}};

	(void)state;
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		assert_int_equal(job(signals[i].text), signals[i].sig ? 0 : -EINVAL);
		if (!signals[i].sig)
			continue;
		assert_int_equal(verbs[0].verb, CTL_SIGNAL);
		assert_int_equal(verbs[0].sig, signals[i].sig);
	}
	assert_int_equal(job("start\neof\nkill\ninterrupt"), 0);
	assert_int_equal(nverbs, 4);
	assert_int_equal(job("reset"), -EINVAL);
	assert_non_null(strstr(why.fix, "signal NAME"));
	assert_int_equal(ctl_parse("start\nsignal TERM\neof", 21, CTL_RUN, verbs, &nverbs, &why),
			 0); /* known, so that they are refused in words of their own */
	assert_int_equal(ctl_parse("reset", 5, CTL_RUN, verbs, &nverbs, &why), -EINVAL);
	assert_string_equal(why.fix, "The verbs are interrupt, kill and eof, one a line.");
}

static void test_lines(void **state)
{
	(void)state;
	assert_int_equal(parse("kill\n\n  reset \r\n\tclose\n"), 0);
	assert_int_equal(nverbs, 3);
	assert_int_equal(verbs[0].verb, CTL_KILL);
	assert_int_equal(verbs[1].verb, CTL_RESET);
	assert_int_equal(verbs[2].verb, CTL_CLOSE);
	assert_int_equal(parse(""), 0);
	assert_int_equal(nverbs, 0);
	assert_int_equal(parse(" \r\n\n"), 0);
	assert_int_equal(nverbs, 0);
}

static void test_refusals(void **state)
{
	static const char *const unknown[] = {"Kill",	    "kil",	 "killl",    "kill reset",
					      "kill,reset", "close\x01", "\xff\xfe", "forks"};

	(void)state;
	for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++) {
		assert_int_equal(parse(unknown[i]), -EINVAL);
		assert_string_equal(problem_code_str(why.code), "unknown-verb");
		assert_non_null(strstr(why.fix, "interrupt"));
	}
	nverbs = 7;
	assert_int_equal(parse("kill\nreset\nnonsense\n"), -EINVAL);
	assert_non_null(strstr(why.cause, "line 3: there is no verb \"nonsense\""));
	assert_int_equal(nverbs, 7); /* untouched */
	assert_int_equal(ctl_parse("kill\0", 5, CTL_SESSION, verbs, &nverbs, &why), -EINVAL);
}

static void test_names(void **state)
{
	static const char *const wrong[] = {"checkpoint",
					    "restore",
					    "checkpoint a b",
					    "checkpoint a when",
					    "checkpoint a when it rains",
					    "restore a when idle"};

	(void)state;
	assert_int_equal(parse("checkpoint before\n restore\tbefore \ncheckpoint b when  idle\n"),
			 0);
	assert_int_equal(nverbs, 3);
	assert_int_equal(verbs[0].verb, CTL_CHECKPOINT);
	assert_string_equal(verbs[0].name, "before");
	assert_false(verbs[0].when_idle);
	assert_int_equal(verbs[1].verb, CTL_RESTORE);
	assert_string_equal(verbs[1].name, "before");
	assert_string_equal(verbs[2].name, "b");
	assert_true(verbs[2].when_idle);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_int_equal(parse(wrong[i]), -EINVAL);
		assert_string_equal(problem_code_str(why.code), "invalid");
	}
	assert_int_equal(parse("fork other"), -EINVAL);
	assert_non_null(strstr(why.fix, "from ="));
}

static void test_bounds(void **state)
{
	char text[CTL_TEXT_MAX + 1];

	(void)state;
	memset(text, ' ', sizeof(text));
	assert_int_equal(ctl_parse(text, CTL_TEXT_MAX, CTL_SESSION, verbs, &nverbs, &why), 0);
	assert_int_equal(ctl_parse(text, CTL_TEXT_MAX + 1, CTL_SESSION, verbs, &nverbs, &why),
			 -EINVAL);
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = "kill\n"[i % 5];
	assert_int_equal(
		ctl_parse(text, (size_t)CTL_VERBS_MAX * 5, CTL_SESSION, verbs, &nverbs, &why), 0);
	assert_int_equal(nverbs, CTL_VERBS_MAX);
	assert_int_equal(ctl_parse(text, CTL_VERBS_MAX * 5 + 4, CTL_SESSION, verbs, &nverbs, &why),
			 -EINVAL);
	assert_string_equal(problem_code_str(why.code), "too-many");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_verb), cmocka_unit_test(test_lines),
		cmocka_unit_test(test_refusals),  cmocka_unit_test(test_names),
		cmocka_unit_test(test_bounds),	  cmocka_unit_test(test_jobs),
		cmocka_unit_test(test_replay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
