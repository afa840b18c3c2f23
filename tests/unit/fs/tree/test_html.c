/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that nobody trusts, as text of HTML. */
/* modules: fs/tree/html.c vm/base/buf.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fs/tree/html.h"
#include "vm/base/buf.h"

#define CUT "\xe2\x80\xa6" /* U+2026 */
#define BAD "\xef\xbf\xbd" /* U+FFFD */

static void check(const char *text, size_t len, size_t max, bool lines, const char *want)
{
	struct buf b = {0};

	html_bytes(&b, text, len, max, lines);
	assert_int_equal(b.failed, 0);
	assert_string_equal(buf_str(&b), want);
	buf_clear(&b);
}

#define CHECK(text, want) check(text, sizeof(text) - 1, 1000, false, want)

static void test_markup(void **state)
{
	(void)state;
	CHECK("", "");
	CHECK("plain text, 1 + 1", "plain text, 1 + 1");
	CHECK("<script>alert('x')</script>", "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;");
	CHECK("\" onload=\"alert(1)", "&#34; onload=&#34;alert(1)");
	CHECK("&lt;", "&amp;lt;"); /* what is a reference already is shown as it was written */
	CHECK("</pre></style>", "&lt;/pre&gt;&lt;/style&gt;");
}

static void test_controls(void **state)
{
	(void)state;
	CHECK("a\033[31mb", "a\xe2\x90\x9b[31mb");
	CHECK("a\0b", "a\xe2\x90\x80"
		      "b");
	CHECK("a\r\n\tb\x7f", "a\xe2\x90\x8d\xe2\x90\x8a\xe2\x90\x89"
			      "b\xe2\x90\xa1");
	check("a\n\tb\r", 5, 10, true, "a\n\tb\xe2\x90\x8d");
	CHECK("\xc2\x9b"
	      "31m",
	      "[U+009B]31m"); /* CSI, of C1 */
}

/* What would show the rest in another order, or not at all. */
static void test_hidden(void **state)
{
	(void)state;
	CHECK("user\xe2\x80\xaetxt.exe\xe2\x80\xac", "user[U+202E]txt.exe[U+202C]");
	CHECK("\xe2\x81\xa6x\xe2\x81\xa9", "[U+2066]x[U+2069]");
	CHECK("\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f", "[U+061C][U+200E][U+200F]");
	CHECK("a\xe2\x80\x8b"
	      "b\xef\xbb\xbf",
	      "a[U+200B]b[U+FEFF]");
	CHECK("\xf3\xa0\x80\x81", "[U+E0001]");
	/* What belongs to words, and to emoji, stays. */
	CHECK("na\xc3\xafve \xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d "
	      "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xac",
	      "na\xc3\xafve \xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d "
	      "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xac");
}

static void test_no_utf8(void **state)
{
	(void)state;
	CHECK("\xff\xfe", BAD BAD);
	CHECK("\xc0\xbc", BAD BAD); /* "<", too long */
	CHECK("\xe0\x80\xbc", BAD BAD BAD);
	CHECK("\xf0\x80\x80\xbc", BAD BAD BAD BAD);
	CHECK("\xed\xa0\x80", BAD BAD BAD); /* a surrogate */
	CHECK("\xf4\x90\x80\x80", BAD BAD BAD BAD);
	CHECK("\xe2<b>", BAD "&lt;b&gt;"); /* it does not swallow what follows */
	CHECK("\xe2\x80", BAD BAD);
	CHECK("\xef\xbf\xbf\xef\xb7\x90", BAD BAD); /* no characters */
	CHECK(BAD, BAD);
}

static void test_bounds(void **state)
{
	struct buf b = {0};

	(void)state;
	check("abcdef", 6, 6, false, "abcdef");
	check("abcdef", 6, 5, false, "abcde" CUT);
	check("abcdef", 6, 0, false, CUT);
	check("ab\xe2\x82\xac"
	      "cd",
	      7, 4, false, "ab" CUT); /* not half of one */
	check("ab\xe2\x82\xac"
	      "cd",
	      7, 5, false, "ab\xe2\x82\xac" CUT);
	html_text(&b, NULL, 10);
	assert_int_equal(b.len, 0);
	html_text(&b, "a<b", 2);
	assert_string_equal(buf_str(&b), "a&lt;" CUT);
	buf_clear(&b);
	/* No byte becomes more than it may. */
	for (unsigned c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 97) {
		char text[4];
		const size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

		for (size_t i = 0; i < n; i++)
			text[i] = (char)(i ? 0x80 | (c >> 6 * (n - 1 - i) & 0x3f)
					   : (n == 1 ? 0 : 0xf00 >> n & 0xff) | c >> 6 * (n - 1));
		html_bytes(&b, text, n, n, false);
		if (b.len > n * HTML_WORST)
			fail_msg("U+%04X: %zu bytes", c, b.len);
		buf_clear(&b);
	}
}

static void check_tail(const char *text, size_t max, const char *want)
{
	struct buf b = {0};

	html_tail(&b, text, strlen(text), max);
	assert_string_equal(buf_str(&b), want);
	buf_clear(&b);
}

static void test_tail(void **state)
{
	struct buf b = {0};

	(void)state;
	check_tail("one\ntwo\n", 8, "one\ntwo\n");
	check_tail("one\ntwo\nthree\n", 10, CUT "\nthree\n");
	check_tail("abcdef", 3, CUT "\ndef");
	check_tail("abc\n", 1, CUT "\n\n");
	check_tail("a\xe2\x82\xac"
		   "b",
		   3, CUT "\nb"); /* nor half of one */
	check_tail("\x80\x80\x80\x80\x80\x80", 5, CUT "\n" BAD BAD);
	check_tail("abc", 0, CUT "\n");
	html_tail(&b, NULL, 0, 10);
	assert_int_equal(b.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_markup), cmocka_unit_test(test_controls),
		cmocka_unit_test(test_hidden), cmocka_unit_test(test_no_utf8),
		cmocka_unit_test(test_bounds), cmocka_unit_test(test_tail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
