/* SPDX-License-Identifier: Apache-2.0 */
/* The values of `seed` and `clock`. */
/* modules: vm/base/exact.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "vm/base/exact.h"
#include "vm/base/util.h"

static void seeds(void **state)
{
	static const char *const bad[] = {"-1",
					  "+1",
					  " 1",
					  "1 ",
					  "0x1",
					  "1.0",
					  "x",
					  "18446744073709551616",
					  "99999999999999999999999"};
	uint64_t seed = 9;

	(void)state;
	assert_int_equal(exact_seed(NULL, &seed), 0);
	assert_int_equal(exact_seed("", &seed), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(exact_seed(bad[i], &seed), -EINVAL);
	assert_int_equal(seed, 9);
	assert_int_equal(exact_seed("18446744073709551615", &seed), 1);
	assert_true(seed == UINT64_MAX);
	assert_int_equal(exact_seed("0", &seed), 1);
	assert_true(seed == 0);
}

static void clocks(void **state)
{
	static const struct {
		const char *text;
		uint64_t s; /* 0: it is none */
		bool fixed;
	} cases[] = {
		{"2026-01-01T00:00:00", 1767225600, false},
		{"2026-01-01T00:00:00Z", 1767225600, false},
		{"2026-01-01T00:00:00 running", 1767225600, false},
		{"2026-01-01T00:00:00Z \t fixed", 1767225600, true},
		{"2024-02-29T23:59:59 fixed", 1709251199, true},
		{"1980-01-01T00:00:00", 315532800, false},
		{"2199-12-31T23:59:59", 7258118399, false},
		{"1979-12-31T23:59:59", 0, false},
		{"2200-01-01T00:00:00", 0, false},
		{"2026-02-29T00:00:00", 0, false},
		{"2026-13-01T00:00:00", 0, false},
		{"2026-00-01T00:00:00", 0, false},
		{"2026-01-01T24:00:00", 0, false},
		{"2026-01-01T00:00:60", 0, false},
		{"2026-01-01 00:00:00", 0, false},
		{"2026-01-01T00:00", 0, false},
		{"2026-01-01", 0, false},
		{"2026-01-01T00:00:00 stopped", 0, false},
		{"2026-01-01T00:00:00+01:00", 0, false},
		{"2026-01-01T00:00:00 fixed ", 0, false},
		{"now", 0, false},
	};
	uint64_t ns = 7;
	bool fixed = false;

	(void)state;
	assert_int_equal(exact_clock(NULL, &ns, &fixed), 0);
	assert_int_equal(exact_clock("", &ns, &fixed), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const int r = exact_clock(cases[i].text, &ns, &fixed);

		assert_int_equal(r, cases[i].s ? 1 : -EINVAL);
		if (!cases[i].s)
			continue;
		assert_true(ns == cases[i].s * 1000000000u);
		assert_int_equal(fixed, cases[i].fixed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seeds),
		cmocka_unit_test(clocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
