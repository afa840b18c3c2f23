/* SPDX-License-Identifier: Apache-2.0 */
/* Who gets a place: limits, memory, order, and fairness between owners. */
/* modules: vm/admission.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "vm/admission.h"

static void init(struct admission *a, unsigned places, unsigned starting, uint64_t memory_mb)
{
	const struct admission_limits l = {
		.places = places, .starting = starting, .memory_mb = memory_mb};

	admission_init(a, &l);
}

static void limits(void **state)
{
	struct ticket t[4] = {{.memory_mb = 10}, {.memory_mb = 10}, {.memory_mb = 10}};
	struct admission a;

	(void)state;
	init(&a, 2, 1, 1000);
	for (unsigned i = 0; i < 3; i++)
		admission_wait(&a, &t[i]);
	assert_ptr_equal(admission_next(&a), &t[0]);
	assert_null(admission_next(&a)); /* one is starting */
	admission_started(&a, &t[0]);
	assert_ptr_equal(admission_next(&a), &t[1]);
	admission_started(&a, &t[1]);
	assert_null(admission_next(&a)); /* full */
	assert_int_equal(a.waiting, 1);
	admission_release(&a, &t[0]);
	assert_int_equal(t[0].state, TICKET_NONE);
	assert_ptr_equal(admission_next(&a), &t[2]);
	admission_release(&a, &t[2]); /* while starting */
	assert_int_equal(a.starting, 0);
	admission_release(&a, &t[1]);
	admission_release(&a, &t[1]); /* again: nothing happens */
	assert_int_equal(a.running, 0);
	assert_int_equal(a.memory_used_mb, 0);
}

static void memory(void **state)
{
	struct ticket big = {.memory_mb = 80}, small = {.memory_mb = 30}, last = {.memory_mb = 10};
	struct ticket never = {.memory_mb = 101};
	struct admission a;

	(void)state;
	init(&a, 10, 10, 100);
	assert_false(admission_possible(&a, &never));
	admission_wait(&a, &small);
	admission_wait(&a, &big);
	admission_wait(&a, &last);
	assert_ptr_equal(admission_next(&a), &small);
	/* The last one would fit, but must not overtake the big one for ever. */
	assert_null(admission_next(&a));
	admission_release(&a, &small);
	assert_ptr_equal(admission_next(&a), &big);
	assert_ptr_equal(admission_next(&a), &last);
}

static void fairness(void **state)
{
	struct ticket greedy[6] = {0}, modest[2] = {0};
	struct admission a;

	(void)state;
	init(&a, 3, 10, 1000);
	for (unsigned i = 0; i < 6; i++) {
		greedy[i].owner = 1;
		admission_wait(&a, &greedy[i]);
	}
	assert_ptr_equal(admission_next(&a), &greedy[0]);
	assert_ptr_equal(admission_next(&a), &greedy[1]);
	modest[0].owner = modest[1].owner = 2;
	admission_wait(&a, &modest[0]);
	admission_wait(&a, &modest[1]);
	assert_ptr_equal(admission_next(&a), &modest[0]);
	admission_release(&a, &greedy[0]);
	/* One place each: who came first. */
	assert_ptr_equal(admission_next(&a), &greedy[2]);
	admission_release(&a, &greedy[1]);
	assert_ptr_equal(admission_next(&a), &greedy[3]);
	admission_release(&a, &greedy[2]);
	admission_release(&a, &greedy[3]);
	assert_ptr_equal(admission_next(&a), &greedy[4]);
	assert_ptr_equal(admission_next(&a), &greedy[5]);
	admission_release(&a, &modest[1]); /* gives up waiting */
	assert_int_equal(a.waiting, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits),
		cmocka_unit_test(memory),
		cmocka_unit_test(fairness),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
