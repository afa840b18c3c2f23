/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a job: words quoted as in a shell, variables, limits. */
/* modules: fs/config/job.c fs/config/words.c fs/config/settings.c fs/config/key.c fs/config/value.c vm/base/upstream.c vm/base/spec.c fs/config/paths.c vm/base/path.c fs/config/network.c fs/config/ruleset.c vm/base/rules.c vm/base/place.c vm/base/http_path.c vm/base/words.c vm/base/secret_use.c vm/base/secret_list.c vm/base/problem.c vm/base/buf.c vm/net/allow_check.c fs/config/entry.c vm/base/exact.c */
/* modules: vm/base/allow.c vm/base/address.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fs/config/job.h"

static const char *const languages[] = {"python", NULL};
static const struct settings session = {.timeout_s = 30};
static struct settings_limits limits;
static struct job_settings js;
static struct problem why;

static int setup(void **state)
{
	(void)state;
	limits = (struct settings_limits){0};
	why = (struct problem){0};
	return job_settings_init(&js, &session);
}

static int teardown(void **state)
{
	(void)state;
	job_settings_clear(&js);
	return 0;
}

static int parse(const char *text)
{
	return job_settings_parse(&js, text, strlen(text), 0, &limits, languages, &why);
}

/* The words, each with a | behind it. */
static void expect_words(const struct buf *words, const char *want)
{
	char got[512];

	assert_true(words->len < sizeof(got));
	memcpy(got, words->data ? words->data : "", words->len);
	got[words->len] = '\0';
	for (size_t i = 0; i < words->len; i++)
		got[i] = got[i] ? got[i] : '|';
	assert_string_equal(got, want);
}

static void expect_round_trip(void)
{
	struct buf text = {0}, again = {0};
	struct job_settings other;
	const char *key = "";

	assert_int_equal(job_settings_render(&js, &text), 0);
	assert_int_equal(job_settings_init(&other, &session), 0);
	assert_int_equal(
		job_settings_parse(&other, text.data, text.len, 0, &limits, languages, &why), 0);
	assert_false(job_settings_frozen_change(&js, &other, &key));
	assert_int_equal(job_settings_render(&other, &again), 0);
	assert_string_equal(buf_str(&text), buf_str(&again));
	job_settings_clear(&other);
	buf_clear(&text);
	buf_clear(&again);
}

static void test_words(void **state)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{"make -j2 test", "make|-j2|test|"},
		{"  a \t b  ", "a|b|"},
		{"'a b' \"c d\" e\\ f", "a b|c d|e f|"},
		{"a'b'\"c\"\\d", "abcd|"},
		{"x '' \"\"", "x|||"},
		{"\"\\$\\`\\\"\\\\\\n\"", "$`\"\\\\n|"},
		{"'$HOME' '*' '~'", "$HOME|*|~|"},
		{"a~ b#c x=y {}", "a~|b#c|x=y|{}|"},
		{"sh -c 'echo a; echo b\necho c'", "sh|-c|echo a; echo b\necho c|"},
		{"a \\\n b\\\nc", "a|bc|"},
		{"it\\'s", "it's|"},
		{"'\xff\x01'", "\xff\x01|"},
		{"", ""},
	};
	char text[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		snprintf(text, sizeof(text), "argv = %s\ncwd = sub\n", cases[i].text);
		assert_int_equal(parse(text), 0);
		expect_words(&js.argv, cases[i].words);
		assert_string_equal(js.cwd, "sub"); /* the next line is another one */
		expect_round_trip();
	}
}

static void test_words_refused(void **state)
{
	static const char *const cases[] = {"echo $HOME", "ls *",    "a | b",  "a; b", "x > y",
					    "`x`",	  "~/bin/x", "a &",    "f()",  "# x",
					    "'open",	  "\"open",  "open\\", "'' x", "x [a]"};
	char text[64];

	(void)state;
	assert_int_equal(parse("argv = before\n"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		snprintf(text, sizeof(text), "# one\nargv = %s", cases[i]);
		assert_int_equal(parse(text), -EINVAL);
		assert_non_null(strstr(why.cause, "line 2: "));
		assert_true(*why.fix);
		expect_words(&js.argv, "before|"); /* all or nothing */
	}
}

static void test_keys(void **state)
{
	(void)state;
	assert_int_equal(js.timeout_s, 30);
	assert_int_equal(parse("language = python\ncwd=/tmp\r\n\n# x\ntimeout_s = 5\nstdin = open\n"
			       "tty = yes\nrows = 50\ncols = 132\nuser = root"),
			 0);
	assert_string_equal(js.language, "python");
	assert_string_equal(js.cwd, "/tmp");
	assert_int_equal(js.timeout_s, 5);
	assert_true(js.input && js.tty && js.root);
	assert_int_equal(js.rows, 50);
	assert_int_equal(js.cols, 132);
	expect_round_trip();
	assert_int_equal(parse("language = shell\ncwd =\nuser = user\nstdin = file\n"), 0);
	assert_null(js.language);
	assert_null(js.cwd);
	assert_false(js.root || js.input);
	expect_round_trip();
}

static void test_keys_refused(void **state)
{
	static const char *const cases[] = {
		"nonsense",	"nothing = 1",	   "language = perl",
		"cwd = ../x",	"cwd = a/../../x", "tty = 1x",
		"rows = 0",	"cols = 1001",	   "timeout_s = x",
		"stdin = pipe", "user = x",	   "unset tty",
		"unset env.1",	"env.A-B = x",	   "env. = x",
		"= x",		"env.A = 'x' y",   "argv = a\nlanguage = python"};

	(void)state;
	limits.max_timeout_s = 60;
	assert_int_equal(parse("timeout_s = 0"), -EINVAL);
	assert_int_equal(parse("timeout_s = 61"), -EINVAL);
	assert_int_equal(parse("timeout_s = 60"), 0);
	assert_int_equal(parse("timeout_s = 1h"), -EINVAL);
	assert_non_null(strstr(why.fix, "e.g. timeout_s = 60."));
	assert_int_equal(parse("nice = 20"), -EINVAL);
	assert_non_null(strstr(why.fix, "e.g. nice = 5."));
	assert_int_equal(parse("language = bash"), -EINVAL);
	assert_non_null(strstr(why.fix, "language = shell or python;"));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(parse(cases[i]), -EINVAL);
		assert_true(why.code && *why.cause && *why.fix);
	}
	assert_int_equal(parse("cwd = a/../b/./c"), 0);
	assert_int_equal(job_settings_parse(&js, "a\0b", 3, 0, &limits, languages, &why), -EINVAL);
}

static void test_variables(void **state)
{
	(void)state;
	assert_int_equal(parse("env.A = one two \nenv.B=\nenv.C = 'x\ny'\nenv.D = \"it's \\$5\"\n"),
			 0);
	expect_words(&js.env, "A=one two|B=|C=x\ny|D=it's $5|");
	expect_round_trip();
	assert_int_equal(parse("env.A = 'other'\nunset env.B\nunset env.NONE\nenv.AA = x = y\n"),
			 0);
	expect_words(&js.env, "C=x\ny|D=it's $5|A=other|AA=x = y|");
	expect_round_trip();
}

static void test_limits(void **state)
{
	static char text[JOB_TEXT_MAX + 1];
	const size_t fits = JOB_ARGV_MAX - 1; /* and a NUL */

	(void)state;
	memcpy(text, "argv = ", sizeof("argv = "));
	memset(text + 7, 'x', fits);
	for (size_t i = JOB_WORD_MAX; i < fits; i += JOB_WORD_MAX)
		text[7 + i - 1] = ' ';
	assert_int_equal(job_settings_parse(&js, text, 7 + fits, 0, &limits, languages, &why), 0);
	assert_int_equal(js.argv.len, JOB_ARGV_MAX);
	expect_round_trip();
	text[7 + JOB_WORD_MAX - 1] = 'x';
	assert_int_equal(job_settings_parse(&js, text, 7 + fits, 0, &limits, languages, &why),
			 -EINVAL);
	assert_non_null(
		strstr(why.cause, "argv: a word of 262143 bytes is longer than the 131071"));
	text[7 + JOB_WORD_MAX - 1] = ' ';
	text[7 + fits] = 'x';
	assert_int_equal(job_settings_parse(&js, text, 7 + fits + 1, 0, &limits, languages, &why),
			 -EINVAL);
	for (size_t i = 0; i < 2 * (JOB_WORDS_MAX + 1); i++)
		text[7 + i] = "x "[i % 2];
	assert_int_equal(
		job_settings_parse(&js, text, 7 + 2 * JOB_WORDS_MAX, 0, &limits, languages, &why),
		0);
	assert_int_equal(job_settings_parse(&js, text, 7 + 2 * JOB_WORDS_MAX + 2, 0, &limits,
					    languages, &why),
			 -EINVAL);
	memcpy(text, "env.A= ", sizeof("env.A= "));
	memset(text + 7, 'x', JOB_ENV_MAX);
	assert_int_equal(
		job_settings_parse(&js, text, 7 + JOB_ENV_MAX - 3, 0, &limits, languages, &why), 0);
	assert_int_equal(
		job_settings_parse(&js, text, 7 + JOB_ENV_MAX - 2, 0, &limits, languages, &why),
		-EINVAL);
	assert_int_equal(job_settings_parse(&js, text, sizeof(text), 0, &limits, languages, &why),
			 -EINVAL);
}

static void test_frozen(void **state)
{
	static const char *const changes[][2] = {{"argv = x", "argv"},
						 {"language = python", "language"},
						 {"cwd = x", "cwd"},
						 {"env.A = x", "env"},
						 {"timeout_s = 1", "timeout_s"},
						 {"tty = yes", "tty"},
						 {"stdin = open", "stdin"},
						 {"user = root", "user"}};
	struct job_settings before;
	const char *key;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		assert_int_equal(job_settings_copy(&before, &js), 0);
		assert_int_equal(parse(changes[i][0]), 0);
		assert_true(job_settings_frozen_change(&before, &js, &key));
		assert_string_equal(key, changes[i][1]);
		job_settings_clear(&js);
		js = before;
	}
	assert_int_equal(job_settings_copy(&before, &js), 0);
	assert_int_equal(parse("rows = 3\ncols = 4"), 0);
	assert_false(job_settings_frozen_change(&before, &js, &key));
	job_settings_clear(&before);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_words),	   T(test_words_refused), T(test_keys),	  T(test_keys_refused),
		T(test_variables), T(test_limits),	  T(test_frozen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
