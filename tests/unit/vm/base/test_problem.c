/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong, in words. */
/* modules: vm/base/problem.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "vm/base/problem.h"

static void names(void **state)
{
	(void)state;
	assert_string_equal(problem_code_str(PROBLEM_NONE), "");
	assert_string_equal(problem_code_str(PROBLEM_BOOT_FAILED), "boot-failed");
	for (unsigned i = 1; i < PROBLEM_NCODES; i++) {
		const char *name = problem_code_str(i);

		assert_true(strlen(name) > 0);
		assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz-"), strlen(name));
		for (unsigned j = 1; j < i; j++)
			assert_string_not_equal(name, problem_code_str(j));
	}
}

static void set(void **state)
{
	static char many[4000];
	struct problem p = {.code = PROBLEM_FAILED, .fix = "old", .cause = "old"};

	(void)state;
	assert_int_equal(problem_set(&p, PROBLEM_LIMIT, "", "%d", 42), -EINVAL);
	assert_int_equal(p.code, PROBLEM_LIMIT);
	assert_string_equal(p.cause, "42");
	assert_string_equal(p.fix, "");
	memset(many, 'x', sizeof(many) - 1);
	problem_set(&p, PROBLEM_LIMIT, many, "%s", many);
	assert_int_equal(strlen(p.cause), sizeof(p.cause) - 1);
	assert_int_equal(strlen(p.fix), sizeof(p.fix) - 1);
}

/* Another code for the same thing, in the words that were there. */
static void set_from_itself(void **state)
{
	struct problem p;

	(void)state;
	problem_set(&p, PROBLEM_QEMU_EXITED, "mend it", "it ended");
	problem_set(&p, PROBLEM_BOOT_FAILED, p.fix, "no start: %s", p.cause);
	assert_int_equal(p.code, PROBLEM_BOOT_FAILED);
	assert_string_equal(p.fix, "mend it");
	assert_string_equal(p.cause, "no start: it ended");
}

/* Sentences do not run together, whatever was the end of the one before. */
static void advises(void **state)
{
	static const struct {
		const char *fix, *with;
	} cases[] = {
		{"", "Try it again."},
		{"Wait.", "Wait. Try it again."},
		{"Build it: scripts/images raw", "Build it: scripts/images raw. Try it again."},
		{"Is there one?", "Is there one? Try it again."},
		{"Mend it! ", "Mend it! Try it again."},
		{" ", "Try it again."},
	};
	struct problem p;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		problem_set(&p, PROBLEM_FAILED, cases[i].fix, "it failed");
		problem_advise(&p, "Try %s again.", "it");
		assert_string_equal(p.fix, cases[i].with);
	}
}

/* To what is there comes more; half of it does not. */
static void adds(void **state)
{
	static char many[4000];
	struct problem p;

	(void)state;
	problem_set(&p, PROBLEM_FAILED, "Mend it.", "it failed");
	p.logged = true;
	problem_add_fix(&p, " Wait %u s.", 3);
	assert_string_equal(p.fix, "Mend it. Wait 3 s.");
	memset(many, 'x', sizeof(many) - 1);
	problem_add_fix(&p, "%s", many);
	assert_string_equal(p.fix, "Mend it. Wait 3 s.");
	problem_advise(&p, "%s", many);
	assert_string_equal(p.fix, "Mend it. Wait 3 s.");
	problem_add(&p, "; %s", "more");
	assert_string_equal(p.cause, "it failed; more");
	for (int i = 0; i < 2; i++) {
		problem_add(&p, " %s", many);
		assert_int_equal(strlen(p.cause), sizeof(p.cause) - 1);
	}
	problem_set(&p, PROBLEM_FAILED, "", "another");
	assert_false(p.logged);
}

/* What tells the user more is still the same failure: whose cause is logged is not logged again. */
static void wraps(void **state)
{
	struct problem p;

	(void)state;
	problem_set(&p, PROBLEM_SPAWNER_LOST, "Mount again.", "it is gone");
	p.logged = true;
	problem_wrap(&p, PROBLEM_PACKAGES_FAILED, p.fix, "did not start: %s", p.cause);
	assert_int_equal(p.code, PROBLEM_PACKAGES_FAILED);
	assert_string_equal(p.cause, "did not start: it is gone");
	assert_string_equal(p.fix, "Mount again.");
	assert_true(p.logged);
}

static void lines(void **state)
{
	struct problem p;

	(void)state;
	problem_set(&p, PROBLEM_INVALID, "", "this is no word");
	problem_name_line(&p, 3);
	assert_string_equal(p.cause, "line 3: this is no word");
	assert_string_equal(problem_quote("a\tb").text, "a?b");
}

static void kept(void **state)
{
	struct problem_kept k = {0};
	struct problem p;

	(void)state;
	assert_int_equal(problem_kept(&k)->code, PROBLEM_NONE);
	assert_string_equal(problem_kept(&k)->cause, "");
	problem_keep(&k, NULL);
	assert_null(k.there);
	problem_set(&p, PROBLEM_LIMIT, "mend it", "too much");
	problem_keep(&k, &p);
	memset(&p, 'x', sizeof(p));
	assert_int_equal(problem_kept(&k)->code, PROBLEM_LIMIT);
	assert_string_equal(problem_kept(&k)->cause, "too much");
	problem_keep(&k, problem_kept(&k)); /* by itself */
	assert_string_equal(problem_kept(&k)->fix, "mend it");
	problem_keep(&k, &(struct problem){0});
	assert_null(k.there);
	problem_keep(&k, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(set),
		cmocka_unit_test(set_from_itself),
		cmocka_unit_test(advises),
		cmocka_unit_test(adds),
		cmocka_unit_test(wraps),
		cmocka_unit_test(lines),
		cmocka_unit_test(kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
