/* SPDX-License-Identifier: Apache-2.0 */
/* The growing buffer and its limit. */
/* modules: vm/base/buf.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "vm/base/buf.h"

static void appends(void **state)
{
	struct buf b = {0};

	(void)state;
	assert_string_equal(buf_str(&b), "");
	assert_int_equal(buf_append(&b, "abc", 3), 0);
	assert_int_equal(buf_append(&b, NULL, 0), 0);
	assert_int_equal(buf_printf(&b, "%d", 42), 0);
	assert_string_equal(buf_str(&b), "abc42");
	assert_int_equal(b.len, 5);
	buf_clear(&b);
	assert_int_equal(b.len, 0);
	assert_null(b.data);
}

static void long_print(void **state)
{
	static char many[2000];
	struct buf b = {.limit = 3000};

	(void)state;
	memset(many, 'x', sizeof(many) - 1);
	assert_int_equal(buf_printf(&b, "%s", many), 0);
	assert_int_equal(b.len, 1999);
	assert_int_equal(buf_printf(&b, "%s", many), -EFBIG);
	assert_int_equal(b.len, 1999);
	buf_clear(&b);
	assert_int_equal(b.limit, 3000);
}

static void limited(void **state)
{
	struct buf b = {.limit = 10};

	(void)state;
	assert_int_equal(buf_append(&b, "0123456789", 10), 0);
	assert_int_equal(buf_append(&b, "x", 1), -EFBIG);
	assert_int_equal(buf_write_at(&b, 9, "xy", 2), -EFBIG);
	assert_int_equal(buf_truncate(&b, 11), -EFBIG);
	assert_int_equal(buf_reserve(&b, SIZE_MAX / 2), -EFBIG);
	assert_memory_equal(b.data, "0123456789", 10);
	assert_string_equal(buf_str(&b), "0123456789"); /* the terminator is not content */
	buf_clear(&b);
}

static void anywhere(void **state)
{
	struct buf b = {0};

	(void)state;
	assert_int_equal(buf_write_at(&b, 3, "de", 2), 0);
	assert_int_equal(b.len, 5);
	assert_memory_equal(b.data, "\0\0\0de", 5);
	assert_int_equal(buf_write_at(&b, 0, "abc", 3), 0);
	assert_string_equal(buf_str(&b), "abcde");
	assert_int_equal(buf_truncate(&b, 2), 0);
	assert_int_equal(buf_truncate(&b, 4), 0);
	assert_memory_equal(b.data, "ab\0\0", 4);
	assert_int_equal(buf_write_at(&b, SIZE_MAX, "x", 1), -EFBIG);
	assert_int_equal(buf_write_at(&b, SIZE_MAX - 1, "", 0), 0);
	buf_clear(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(appends),
		cmocka_unit_test(long_print),
		cmocka_unit_test(limited),
		cmocka_unit_test(anywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
