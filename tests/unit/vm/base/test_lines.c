/* SPDX-License-Identifier: Apache-2.0 */
/* Words of programs that nobody vouches for: how they become lines. */
/* modules: vm/base/lines.c */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "vm/base/lines.h"

static struct {
	unsigned n; /* lines so far */
	char last[LINES_MAX];
} told;

static void on_line(struct lines *w, char *text)
{
	assert_ptr_equal(w->data, &told);
	assert_true(strlen(text) < sizeof(told.last));
	memcpy(told.last, text, strlen(text) + 1);
	memset(text, '!', strlen(text)); /* it may be altered */
	told.n++;
}

static struct lines begin(void)
{
	memset(&told, 0, sizeof(told));
	return (struct lines){.line = on_line, .data = &told};
}

static void add(struct lines *w, const char *text)
{
	lines_add(w, text, strlen(text));
}

static void lines(void **state)
{
	struct lines w = begin();

	(void)state;
	add(&w, "one\ntw");
	assert_int_equal(told.n, 1);
	assert_string_equal(told.last, "one");
	add(&w, "o");
	assert_int_equal(told.n, 1);
	add(&w, "\n\n");
	assert_int_equal(told.n, 3);
	assert_string_equal(told.last, "");
	for (const char *p = "byte by byte\n"; *p; p++)
		lines_add(&w, p, 1);
	assert_int_equal(told.n, 4);
	assert_string_equal(told.last, "byte by byte");
	lines_add(&w, "", 0);
	assert_int_equal(told.n, 4);
}

static void no_line_end(void **state)
{
	struct lines w = begin();

	(void)state;
	lines_end(&w);
	assert_int_equal(told.n, 0);
	add(&w, "first\nlast");
	assert_int_equal(told.n, 1);
	lines_end(&w);
	assert_int_equal(told.n, 2);
	assert_string_equal(told.last, "last");
	lines_end(&w);
	assert_int_equal(told.n, 2);
	assert_true(tail_contains(&w.said, "first\nlast"));
}

static void bytes_of_all_kinds(void **state)
{
	struct lines w = begin();
	char all[256], printable[256];
	size_t n = 0;

	(void)state;
	lines_add(&w, "a\0b\x1b[1mc\td\re\x7f\xc3\xa4\xff.\n", 18);
	assert_int_equal(told.n, 1);
	assert_string_equal(told.last, "ab[1mcde.");
	for (unsigned i = 0; i < sizeof(all); i++) {
		all[i] = (char)i;
		if (i >= 0x20 && i < 0x7f)
			printable[n++] = (char)i;
	}
	printable[n] = '\0';
	lines_add(&w, all, sizeof(all)); /* among them is one line feed */
	lines_end(&w);
	assert_int_equal(told.n, 3);
	assert_string_equal(told.last, printable);
	lines_add(&w, "\0\0\0", 3);
	lines_end(&w);
	assert_int_equal(told.n,
			 3); /* of a line without anything to be seen nothing is told at the end */
}

static void more_than_fits(void **state)
{
	static char many[3 * TAIL_SIZE];
	struct lines w = begin();

	(void)state;
	memset(many, 'x', sizeof(many));
	lines_add(&w, many, LINES_MAX - 1);
	add(&w, "\n");
	assert_int_equal(strlen(told.last), LINES_MAX - 1);
	lines_add(&w, many, LINES_MAX);
	add(&w, "\n");
	assert_int_equal(strlen(told.last), LINES_MAX - 1);
	for (unsigned i = 0; i < 5; i++)
		lines_add(&w, many, sizeof(many));
	assert_int_equal(told.n, 2);
	add(&w, "the end of it\nnext\n");
	assert_int_equal(told.n, 4);
	assert_string_equal(told.last, "next");
	assert_true(tail_contains(&w.said, "xxxthe end of it\nnext"));
}

/* ---- the last bytes, and how they are quoted ---- */

static void add_tail(struct tail *t, const char *text)
{
	tail_add(t, text, strlen(text));
}

static void quotes(void **state)
{
	struct tail t = {0};
	char out[64];

	(void)state;
	assert_string_equal(tail_quote(&t, NULL, out, sizeof(out)), "");
	add_tail(&t, "\n\none\r\n\x1b[1mtwo\x1b[0m\n\n\tthree\x01\n");
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
	add_tail(&t, "a very long line\nshort\nlast line\n");
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
	add_tail(&t, "begin\n");
	tail_add(&t, many, sizeof(many));
	for (unsigned i = 0; i < 100; i++)
		add_tail(&t, "0123456789abcdef");
	add_tail(&t, "\nend");
	assert_false(tail_contains(&t, "begin"));
	assert_true(tail_contains(&t, "xxx0123"));
	assert_string_equal(tail_quote(&t, "end", out, sizeof(out)), "end");
	for (unsigned i = 0; i < 40; i++)
		add_tail(&t, "\xc3\xa4\xc3\xa4\xc3\xa4");
	tail_quote(&t, NULL, out, sizeof(out));
	assert_int_not_equal((unsigned char)out[0] & 0xc0, 0x80);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines),
		cmocka_unit_test(no_line_end),
		cmocka_unit_test(bytes_of_all_kinds),
		cmocka_unit_test(more_than_fits),
		cmocka_unit_test(quotes),
		cmocka_unit_test(cuts),
		cmocka_unit_test(keeps_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
