/* SPDX-License-Identifier: Apache-2.0 */
/* Inode numbers as the host is told them. */
/* modules: agent/files/number.c agent/files/inodes.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "agent/files/number.h"

static void test_nothing_was_unpacked(void **state)
{
	struct numbers ns = {0};

	(void)state;
	assert_int_equal(number_of(&ns, 5), 5);
	assert_int_equal(number_of(&ns, 1ull << 63 | 5), 1ull << 63 | 5);
}

/* Those of before, whatever they are; all others are told apart from them. */
static void test_unpacked(void **state)
{
	struct numbers ns = {0};

	(void)state;
	numbers_clear(&ns);
	for (ino_t i = 1; i <= 5000; i++)
		assert_int_equal(number_set(&ns, i, 10000 - i), 0);
	for (ino_t i = 1; i <= 5000; i++)
		assert_int_equal(number_of(&ns, i), 10000 - i);
	assert_int_equal(number_of(&ns, 5001), 1ull << 32 | 5001);
	assert_int_equal(number_set(&ns, 5001, 1ull << 32 | 77), 0);
	assert_int_equal(number_of(&ns, 5001), 1ull << 32 | 77);
	assert_int_equal(number_of(&ns, 5002), 2ull << 32 | 5002);
	assert_int_equal(number_set(&ns, 5001, 3), 0); /* again */
	assert_int_equal(number_of(&ns, 5001), 3);
	numbers_clear(&ns);
	assert_int_equal(number_of(&ns, 1), 3ull << 32 | 1);
	numbers_clear(&ns);
}

/* Some file systems use the upper half as well. */
static void test_large(void **state)
{
	struct numbers ns = {0};

	(void)state;
	numbers_clear(&ns);
	assert_int_equal(number_of(&ns, 2ull << 32 | 5), 1ull << 32 | (2 ^ 5));
	assert_int_equal(number_set(&ns, 7, UINT64_MAX), 0);
	assert_int_equal(number_of(&ns, 7), UINT64_MAX);
	assert_int_equal(number_of(&ns, 8),
			 (uint64_t)UINT32_MAX << 32 | 8); /* there is no later one */
	numbers_clear(&ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_was_unpacked),
		cmocka_unit_test(test_unpacked),
		cmocka_unit_test(test_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
