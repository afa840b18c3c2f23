/* SPDX-License-Identifier: Apache-2.0 */
/* Whose run has the processors: the budget, patience, fairness, and runs that only wait. */
/* modules: vm/host/slots.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "vm/host/slots.h"
#include "vm/base/util.h"

#define ONE 100u

static void init(struct slot *s, size_t n, uid_t owner)
{
	for (size_t i = 0; i < n; i++)
		s[i] = (struct slot){.owner = owner, .cpus = ONE};
}

static void budget(void **state)
{
	struct slot s[5];
	struct slots ss;

	(void)state;
	init(s, ARRAY_SIZE(s), 1);
	slots_init(&ss, 3 * ONE, 4 * ONE);
	for (unsigned i = 0; i < 3; i++)
		assert_true(slots_take(&ss, &s[i], 0));
	assert_true(slots_take(&ss, &s[0], 0)); /* has one already */
	assert_int_equal(ss.used, 3 * ONE);
	assert_false(slots_take(&ss, &s[3], 0));
	assert_false(slots_take(&ss, &s[3], 0)); /* once is enough */
	assert_false(slots_take(&ss, &s[4], 0));
	assert_int_equal(ss.waiting, 2);
	assert_null(slots_next(&ss, 10));
	slots_release(&ss, &s[1]);
	assert_ptr_equal(slots_next(&ss, 20), &s[3]); /* one goes, one comes */
	assert_null(slots_next(&ss, 20));
	assert_int_equal(slots_turn(&ss, &s[4]), 1);
	slots_release(&ss, &s[4]); /* it was withdrawn */
	slots_release(&ss, &s[4]);
	assert_int_equal(ss.waiting, 0);
	for (unsigned i = 0; i < 5; i++)
		slots_release(&ss, &s[i]);
	assert_int_equal(ss.used, 0);
	assert_int_equal(ss.held, 0);
}

/* Nobody overtakes those who wait, even if it would fit. */
static void no_overtaking(void **state)
{
	struct slot s[3];
	struct slots ss;

	(void)state;
	init(s, ARRAY_SIZE(s), 1);
	s[1].cpus = 2 * ONE;
	slots_init(&ss, 2 * ONE, 8 * ONE);
	assert_true(slots_take(&ss, &s[0], 0));
	assert_false(slots_take(&ss, &s[1], 0));
	assert_false(slots_take(&ss, &s[2], 0));
	assert_null(slots_next(&ss, 0));
	slots_release(&ss, &s[0]);
	assert_ptr_equal(slots_next(&ss, 0), &s[1]);
	assert_null(slots_next(&ss, 0));
}

static void patience(void **state)
{
	struct slot s[4];
	struct slots ss;

	(void)state;
	init(s, ARRAY_SIZE(s), 1);
	slots_init(&ss, ONE, 2 * ONE);
	assert_true(slots_take(&ss, &s[0], 100));
	assert_false(slots_take(&ss, &s[1], 200));
	assert_false(slots_take(&ss, &s[2], 300));
	assert_null(slots_next(&ss, 200 + SLOTS_PATIENCE_MS - 1));
	assert_ptr_equal(slots_next(&ss, 200 + SLOTS_PATIENCE_MS), &s[1]); /* shares */
	assert_null(slots_next(&ss, 1000000)); /* but not with everybody */
	slots_release(&ss, &s[0]);
	assert_ptr_equal(slots_next(&ss, 1000000), &s[2]);
}

/* Runs that never end, as many as can be, are no reason for anybody else's to wait. */
static void endless(void **state)
{
	struct slot greedy[5], modest[2], third;
	struct slots ss;

	(void)state;
	init(greedy, ARRAY_SIZE(greedy), 1);
	init(modest, ARRAY_SIZE(modest), 2);
	init(&third, 1, 3);
	slots_init(&ss, 2 * ONE, 4 * ONE);
	for (unsigned i = 0; i < 5; i++)
		(void)slots_take(&ss, &greedy[i], 0);
	assert_ptr_equal(slots_next(&ss, 5000), &greedy[2]);
	assert_ptr_equal(slots_next(&ss, 5000), &greedy[3]);
	assert_null(slots_next(&ss, 5000));
	assert_false(slots_take(&ss, &modest[0], 5000));
	assert_false(slots_take(&ss, &modest[1], 5000));
	assert_ptr_equal(slots_next(&ss, 5000), &modest[0]);
	assert_null(slots_next(&ss, 1000000)); /* that was his first */
	assert_false(slots_take(&ss, &third, 1000000));
	assert_ptr_equal(slots_next(&ss, 1000000), &third);
}

static void fairness(void **state)
{
	struct slot greedy[6], modest[2];
	struct slots ss;

	(void)state;
	init(greedy, ARRAY_SIZE(greedy), 1);
	init(modest, ARRAY_SIZE(modest), 2);
	slots_init(&ss, 2 * ONE, 3 * ONE);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(slots_take(&ss, &greedy[i], 0), i < 2);
	assert_false(slots_take(&ss, &modest[0], 1));
	assert_false(slots_take(&ss, &modest[1], 1));
	assert_int_equal(slots_turn(&ss, &modest[0]), 1);
	assert_int_equal(slots_turn(&ss, &modest[1]), 2);
	assert_int_equal(slots_turn(&ss, &greedy[2]), 3);
	/* Who has none does not wait for the patience of the others to end. */
	assert_ptr_equal(slots_next(&ss, 1), &modest[0]);
	assert_null(slots_next(&ss, 1));
	slots_release(&ss, &greedy[0]);
	assert_null(slots_next(&ss, 1));
	slots_release(&ss, &greedy[1]);
	assert_ptr_equal(slots_next(&ss, 1), &greedy[2]); /* none against one */
	slots_release(&ss, &modest[0]);
	assert_ptr_equal(slots_next(&ss, 1), &modest[1]);
}

/* More processors than there are: all of them, alone. */
static void large(void **state)
{
	struct slot big = {.cpus = 64 * ONE}, small = {.cpus = ONE};
	struct slots ss;

	(void)state;
	slots_init(&ss, 3 * ONE, 16 * ONE);
	assert_true(slots_take(&ss, &big, 0));
	assert_int_equal(ss.used, 3 * ONE);
	assert_false(slots_take(&ss, &small, 0));
	slots_release(&ss, &big);
	assert_ptr_equal(slots_next(&ss, 0), &small);
	assert_false(slots_take(&ss, &big, 0));
	slots_release(&ss, &small);
	assert_ptr_equal(slots_next(&ss, 0), &big);
}

/* A run that sleeps keeps nobody waiting; when it computes again it counts again. */
static void sleepers(void **state)
{
	struct slot s[3];
	struct slots ss;
	uint64_t now = 1000;

	(void)state;
	init(s, ARRAY_SIZE(s), 1);
	slots_init(&ss, ONE, 2 * ONE);
	assert_true(slots_take(&ss, &s[0], now));
	assert_false(slots_take(&ss, &s[1], now));
	slots_sample(&ss, &s[0], 5000, now); /* only to begin with */
	assert_true(s[0].busy);
	slots_sample(&ss, &s[0], 5000, now + 10); /* too soon */
	assert_true(s[0].busy);
	now += SLOTS_SAMPLE_MS;
	slots_sample(&ss, &s[0], 5010, now);
	assert_false(s[0].busy);
	assert_int_equal(ss.used, 0);
	assert_int_equal(ss.held, 1);
	assert_int_equal(ss.busy, 0);
	assert_ptr_equal(slots_next(&ss, now), &s[1]);
	now += SLOTS_SAMPLE_MS;
	slots_sample(&ss, &s[0], 5010 + SLOTS_SAMPLE_MS, now);
	assert_true(s[0].busy);
	assert_int_equal(ss.used, 2 * ONE);
	assert_int_equal(ss.busy, 2);
	now += SLOTS_SAMPLE_MS;
	slots_sample(&ss, &s[0], 3, now); /* a counter that goes back is a new process */
	assert_false(s[0].busy);
	slots_release(&ss, &s[0]);
	slots_release(&ss, &s[1]);
	slots_sample(&ss, &s[0], 9000, now + 1000); /* not any more */
	assert_int_equal(ss.used, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(budget),   cmocka_unit_test(no_overtaking),
		cmocka_unit_test(patience), cmocka_unit_test(endless),
		cmocka_unit_test(fairness), cmocka_unit_test(large),
		cmocka_unit_test(sleepers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
