/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer of the agent says of a guest's clock. */
/* modules: tests/unit/fixture/fake_agent.c vm */
/* libs: uv crypto jansson seccomp */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "vm/guest/clock.h"

#define MS 1000000LL

static const uint64_t now = 1790000000ull * 1000 * MS;

/* Asked now, answered @late after, of which nobody knows when in between the guest, which is @off
 * behind, read its clock. Return: what is to be added. */
static int64_t correction(uint64_t late, uint64_t read_after, int64_t off, bool precise)
{
	int64_t delta;

	assert_true(guest_clock_verdict(now, now + read_after - (uint64_t)off, now + late,
					&delta) == precise);
	return delta;
}

static void test_right(void **state)
{
	(void)state;
	assert_int_equal(correction(1 * MS, 0, 0, true), 0);
	assert_int_equal(correction(1 * MS, 1 * MS, 0, true), 0);
	/* However long it takes, a clock that may be right is left alone. */
	assert_int_equal(correction(900 * MS, 0, 0, false), 0);
	assert_int_equal(correction(900 * MS, 900 * MS, 0, false), 0);
}

static void test_wrong(void **state)
{
	static const int64_t offs[] = {5 * MS, 125 * MS, -5 * MS, 3600000 * MS, -3600000 * MS};

	(void)state;
	for (size_t i = 0; i < sizeof(offs) / sizeof(offs[0]); i++) {
		for (uint64_t late = 0; late <= 20 * MS; late += 5 * MS) {
			for (uint64_t at = 0; at <= late; at += 5 * MS) {
				const int64_t d = correction(late, at, offs[i], true);
				const int64_t left = offs[i] - d;

				/* Never worse by more than what is unknown. */
				assert_true(left <= (int64_t)late + 2 * MS);
				assert_true(left >= -(int64_t)late - 2 * MS);
			}
		}
	}
	/* The answer took long: half of that is as good as it gets, and another is wanted. */
	assert_int_equal(correction(100 * MS, 50 * MS, 1000 * MS, false), 1000 * MS);
}

static void test_strange(void **state)
{
	int64_t delta;

	(void)state;
	/* The host's clock was set back in between. */
	assert_false(guest_clock_verdict(now, now, now - 5 * MS, &delta));
	assert_int_equal(delta, 0);
	/* A guest can say what it likes. */
	guest_clock_verdict(now, 0, now, &delta);
	guest_clock_verdict(now, UINT64_MAX, now + 1, &delta);
	guest_clock_verdict(now, now + (UINT64_MAX >> 1), now + 1, &delta);
	guest_clock_verdict(now, now + (UINT64_MAX >> 1) + 1, now + 2, &delta);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_right),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_strange),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
