/* SPDX-License-Identifier: Apache-2.0 */
/* What is done when the daemon dies, and dies again. */
/* modules: vm/spawn/deaths.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "vm/spawn/deaths.h"

static void expect(struct deaths *d, int64_t now, enum deaths_verdict verdict, int64_t wait)
{
	int64_t w = -1;

	assert_int_equal(deaths_count(d, now, &w), verdict);
	assert_int_equal(w, wait);
}

static void in_a_row(void **state)
{
	const int64_t waits[] = {0, 0, 200, 1000, 5000};
	struct deaths d = {0};
	int64_t now = 1000;

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		deaths_serves(&d, now);
		now += 59999;
		expect(&d, now, DEATHS_AGAIN, waits[i]);
	}
	deaths_serves(&d, now);
	expect(&d, now + 1, DEATHS_LAST, 0);
	expect(&d, now + 2, DEATHS_OVER, 0);
	expect(&d, now + 3, DEATHS_OVER, 0);
}

/* One that has served for a minute is not one of them; one that never served is, however long that took. */
static void long_lives(void **state)
{
	struct deaths d = {0};
	int64_t now = 1;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		deaths_serves(&d, now);
		now += 60000;
		expect(&d, now, DEATHS_AGAIN, 0);
		expect(&d, now += 100000, DEATHS_AGAIN, 0); /* it did not come so far */
		expect(&d, now += 100000, DEATHS_AGAIN, 200);
	}
}

static void as_configured(void **state)
{
	struct deaths one = {.most = 1}, two = {.most = 2}, many = {.most = 1000};

	(void)state;
	expect(&one, 5, DEATHS_LAST, 0);
	expect(&one, 5, DEATHS_OVER, 0);
	expect(&two, 5, DEATHS_AGAIN, 0);
	expect(&two, 5, DEATHS_LAST, 0);
	for (unsigned i = 0; i < 996; i++)
		expect(&many, 5, DEATHS_AGAIN, 0);
	expect(&many, 5, DEATHS_AGAIN, 200);
	expect(&many, 5, DEATHS_AGAIN, 1000);
	expect(&many, 5, DEATHS_AGAIN, 5000);
	expect(&many, 5, DEATHS_LAST, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(in_a_row), cmocka_unit_test(long_lives),
					   cmocka_unit_test(as_configured)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
