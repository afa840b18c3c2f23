/* SPDX-License-Identifier: Apache-2.0 */
/* The last bytes of a stream, and how they are quoted. */
/* modules: vm/base/lines.c vm/base/problem.c */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "vm/base/lines.h"
#include "vm/base/problem.h"
#include "vm/vm.h"

static void add(struct tail *t, const char *text)
{
	tail_add(t, text, strlen(text));
}

static void quotes(void **state)
{
	struct tail t = {0};
	char out[64];

	(void)state;
	assert_string_equal(tail_quote(&t, NULL, out, sizeof(out)), "");
	add(&t, "\n\none\r\n\x1b[1mtwo\x1b[0m\n\n\tthree\x01\n");
	assert_string_equal(tail_quote(&t, NULL, out, sizeof(out)), "one / two /  three");
	assert_string_equal(tail_quote(&t, "two", out, sizeof(out)), "two /  three");
	assert_string_equal(tail_quote(&t, "absent", out, sizeof(out)), "one / two /  three");
	assert_true(tail_contains(&t, "three"));
	assert_false(tail_contains(&t, "four"));
}

static void cuts(void **state)
{
	struct tail t = {0};
	char out[16];

	(void)state;
	add(&t, "a very long line\nshort\nlast line\n");
	assert_string_equal(tail_quote(&t, NULL, out, sizeof(out)), "last line");
	assert_string_equal(tail_quote(&t, "very", out, sizeof(out)), "very long line ");
}

static void keeps_the_end(void **state)
{
	static char many[3 * TAIL_SIZE];
	struct tail t = {0};
	char out[32];

	(void)state;
	memset(many, 'x', sizeof(many));
	add(&t, "begin\n");
	tail_add(&t, many, sizeof(many));
	for (unsigned i = 0; i < 100; i++)
		add(&t, "0123456789abcdef");
	add(&t, "\nend");
	assert_false(tail_contains(&t, "begin"));
	assert_true(tail_contains(&t, "xxx0123"));
	assert_string_equal(tail_quote(&t, "end", out, sizeof(out)), "end");
	for (unsigned i = 0; i < 40; i++)
		add(&t, "\xc3\xa4\xc3\xa4\xc3\xa4");
	tail_quote(&t, NULL, out, sizeof(out));
	assert_int_not_equal((unsigned char)out[0] & 0xc0, 0x80);
}

static void words(void **state)
{
	static char many[4000];
	struct problem p = {0};

	(void)state;
	memset(many, 'x', sizeof(many) - 1);
	problem_set(&p, PROBLEM_FAILED, "fix", "%d", 42);
	assert_string_equal(p.cause, "42");
	problem_add(&p, "; %s", "more");
	assert_string_equal(p.cause, "42; more");
	problem_add(&p, "%s", many);
	assert_int_equal(strlen(p.cause), sizeof(p.cause) - 1);
	problem_add(&p, "%s", many);
	assert_int_equal(strlen(p.cause), sizeof(p.cause) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quotes),
		cmocka_unit_test(cuts),
		cmocka_unit_test(keeps_the_end),
		cmocka_unit_test(words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
