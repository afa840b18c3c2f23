/* SPDX-License-Identifier: Apache-2.0 */
/* `from = SESSION[@CHECKPOINT]`: found, and read. */
/* modules: fs/config/from.c vm/base/problem.c vm/base/path.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fs/config/from.h"
#include "vm/base/problem.h"

static char value[FROM_MAX];

static bool found(const char *text)
{
	memset(value, '?', sizeof(value));
	return from_find(text, strlen(text), value);
}

static void test_found(void **state)
{
	char text[600] = "from = ";

	(void)state;
	assert_true(found("from=a"));
	assert_string_equal(value, "a");
	assert_true(found("timeout_s = 5\n\t from\t= a@b \r\nwhen = idle\n"));
	assert_string_equal(value, "a@b");
	assert_true(found("from = a\nfrom = b\n")); /* the last counts, as of all keys */
	assert_string_equal(value, "b");
	assert_true(found("from =\n"));
	assert_string_equal(value, "");
	assert_false(found(""));
	assert_false(found("#from = a\nfrom\nfromage = b\nenv.from = c\n= from\n"));
	assert_false(from_find(NULL, 0, value));
	memset(text + 7, 'a', 580);
	assert_true(found(text));
	assert_int_equal(strlen(value), FROM_MAX - 1);
}

static void test_parsed(void **state)
{
	static const char *const wrong[] = {"",	  "@",	 "a@",	  "@b",	   "/a", "a/",
					    ".a", "a b", "a@b@c", "a/b/c", "-a", "\xff"};
	char text[80];
	struct problem why;
	struct from f;

	(void)state;
	assert_int_equal(from_parse("demo", &f, &why), 0);
	assert_string_equal(f.template, "");
	assert_string_equal(f.session, "demo");
	assert_string_equal(f.checkpoint, "");
	assert_int_equal(from_parse("python/demo@run-3", &f, &why), 0);
	assert_string_equal(f.template, "python");
	assert_string_equal(f.session, "demo");
	assert_string_equal(f.checkpoint, "run-3");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_int_equal(from_parse(wrong[i], &f, &why), -EINVAL);
		assert_int_equal(why.code, PROBLEM_INVALID);
	}
	memset(text, 'a', sizeof(text));
	text[64] = '\0';
	assert_int_equal(from_parse(text, &f, &why), 0);
	text[64] = 'a';
	text[65] = '\0';
	assert_int_equal(from_parse(text, &f, &why), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_found),
					   cmocka_unit_test(test_parsed)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
