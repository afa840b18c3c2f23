/* SPDX-License-Identifier: Apache-2.0 */
/* Who gets a place: limits, memory, how the host is doing, order, and fairness between owners. */
/* modules: vm/host/admission.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "vm/host/admission.h"

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

/* Another's large claim that does not fit keeps nobody waiting who asks for less. */
static void large_claims(void **state)
{
	struct ticket big = {.owner = 1, .memory_mb = 80}, own = {.owner = 1, .memory_mb = 5};
	struct ticket first = {.owner = 9, .memory_mb = 40}, small = {.owner = 2, .memory_mb = 30};
	struct ticket bigger = {.owner = 3, .memory_mb = 90};
	struct admission a;

	(void)state;
	init(&a, 10, 10, 100);
	admission_wait(&a, &first);
	assert_ptr_equal(admission_next(&a), &first);
	admission_wait(&a, &big);
	admission_wait(&a, &own);
	admission_wait(&a, &bigger);
	assert_null(admission_next(&a));
	assert_int_equal(a.lack, LACK_MEMORY);
	assert_true(admission_full(&a));
	admission_wait(&a, &small);
	assert_ptr_equal(admission_next(&a), &small);
	assert_null(admission_next(&a)); /* not `own`, and not `bigger` */
	admission_release(&a, &first);
	admission_release(&a, &small);
	assert_ptr_equal(admission_next(&a), &big);
	assert_ptr_equal(admission_next(&a), &own);
	assert_null(admission_next(&a));
	assert_int_equal(admission_why(&a, &bigger), LACK_MEMORY);
}

/* Whoever can't be started yet keeps nobody else waiting. */
static void held(void **state)
{
	struct ticket machine = {.owner = 1, .held = true}, process = {.owner = 1};
	struct admission a;

	(void)state;
	init(&a, 10, 10, 100);
	admission_wait(&a, &machine);
	assert_null(admission_next(&a));
	assert_false(admission_contended(&a));
	admission_wait(&a, &process);
	assert_ptr_equal(admission_next(&a), &process);
	assert_null(admission_next(&a));
	machine.held = false;
	assert_ptr_equal(admission_next(&a), &machine);
}

/* What one owner may have at most, and that it is only his affair. */
static void own_limits(void **state)
{
	const struct admission_limits l = {.places = 8,
					   .starting = 8,
					   .memory_mb = 100,
					   .owner_places = 2,
					   .owner_memory_mb = 60};
	struct ticket greedy[3] = {{.owner = 1, .memory_mb = 10},
				   {.owner = 1, .memory_mb = 10},
				   {.owner = 1, .memory_mb = 10}};
	struct ticket modest = {.owner = 2, .memory_mb = 50}, more = {.owner = 2, .memory_mb = 20};
	struct ticket huge = {.owner = 3, .memory_mb = 61};
	struct admission a;

	(void)state;
	admission_init(&a, &l);
	assert_false(admission_possible(&a, &huge));
	for (unsigned i = 0; i < 3; i++)
		admission_wait(&a, &greedy[i]);
	assert_true(admission_contended(&a)); /* until it was tried */
	assert_ptr_equal(admission_next(&a), &greedy[0]);
	assert_ptr_equal(admission_next(&a), &greedy[1]);
	assert_null(admission_next(&a));
	assert_int_equal(a.lack, LACK_OWN_PLACE);
	assert_int_equal(admission_why(&a, &greedy[2]), LACK_OWN_PLACE);
	/* Nobody has to give way, and others go on as if he were not there. */
	assert_false(admission_full(&a));
	assert_false(admission_contended(&a));
	assert_true(admission_room(&a, 10));
	assert_false(admission_own_room(&a, 1, 10));
	assert_true(admission_own_room(&a, 2, 60));
	assert_false(admission_own_room(&a, 2, 61));
	admission_wait(&a, &modest);
	assert_ptr_equal(admission_next(&a), &modest);
	admission_wait(&a, &more);
	assert_null(admission_next(&a));
	assert_int_equal(admission_why(&a, &more), LACK_OWN_MEMORY);
	admission_release(&a, &greedy[0]);
	assert_ptr_equal(admission_next(&a), &greedy[2]);
}

static void queue(void **state)
{
	const struct admission_limits l = {
		.places = 1, .starting = 1, .memory_mb = 100, .queue = 4, .owner_queue = 3};
	struct ticket t[5] = {{.owner = 1}, {.owner = 1}, {.owner = 1}, {.owner = 2}, {.owner = 3}};
	struct admission a;

	(void)state;
	admission_init(&a, &l);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(admission_queue_room(&a, 1));
		admission_wait(&a, &t[i]);
	}
	assert_false(admission_queue_room(&a, 1)); /* his share */
	assert_true(admission_queue_room(&a, 2));
	admission_wait(&a, &t[3]);
	assert_false(admission_queue_room(&a, 2)); /* all of it */
	assert_ptr_equal(admission_next(&a), &t[0]);
	assert_true(admission_queue_room(&a, 3));
	admission_wait(&a, &t[4]);
	/* In turn: who has none, in the order they came; then the other's. */
	assert_int_equal(admission_turn(&a, &t[3]), 1);
	assert_int_equal(admission_turn(&a, &t[4]), 2);
	assert_int_equal(admission_turn(&a, &t[1]), 3);
	assert_int_equal(admission_turn(&a, &t[2]), 4);
}

/* One who gives up a place wakes one, not all. */
static void one_by_one(void **state)
{
	struct ticket t[20] = {0};
	struct admission a;
	unsigned served = 2;

	(void)state;
	init(&a, 2, 2, 1000);
	for (unsigned i = 0; i < 20; i++)
		admission_wait(&a, &t[i]);
	assert_ptr_equal(admission_next(&a), &t[0]);
	assert_ptr_equal(admission_next(&a), &t[1]);
	while (served < 20) {
		assert_null(admission_next(&a));
		admission_started(&a, &t[served - 2]);
		assert_null(admission_next(&a)); /* to have started makes no place */
		admission_release(&a, &t[served - 2]);
		assert_ptr_equal(admission_next(&a), &t[served]);
		served++;
	}
}

/* ---- the host ---- */

static void host_memory(void **state)
{
	const struct admission_limits l = {
		.places = 10, .starting = 10, .memory_mb = 100000, .floor_mb = 100};
	struct ticket t[4] = {
		{.memory_mb = 300}, {.memory_mb = 300}, {.memory_mb = 300}, {.memory_mb = 300}};
	struct admission a;

	(void)state;
	admission_init(&a, &l);
	for (unsigned i = 0; i < 4; i++)
		admission_wait(&a, &t[i]);
	a.now = (struct admission_now){.known = true, .available_mb = 399};
	assert_null(admission_next(&a));
	assert_int_equal(a.lack, LACK_HOST_MEMORY);
	assert_true(admission_full(&a)); /* the pool is to give way */
	a.now.available_mb = 700;
	assert_ptr_equal(admission_next(&a), &t[0]);
	/* What is starting has not taken its memory yet, but will. */
	assert_ptr_equal(admission_next(&a), &t[1]);
	assert_null(admission_next(&a));
	admission_started(&a, &t[0]);
	assert_int_equal(a.starting_mb, 300);
	/* An idle one takes a part of what it may have; the rest is there for others. */
	a.now.available_mb = 640;
	assert_null(admission_next(&a));
	admission_started(&a, &t[1]);
	assert_ptr_equal(admission_next(&a), &t[2]);
	admission_release(&a, &t[3]);
	assert_int_equal(a.lack, LACK_NOTHING);
	assert_false(admission_room(&a, 300));
	assert_true(admission_room(&a, 240));
	admission_release(&a, &t[2]); /* while starting */
	assert_int_equal(a.starting_mb, 0);
}

static void pressure(void **state)
{
	const struct admission_limits l = {
		.places = 10, .starting = 10, .memory_mb = 1000, .pressure = 1000};
	struct ticket t = {.memory_mb = 10};
	struct admission a;

	(void)state;
	admission_init(&a, &l);
	admission_wait(&a, &t);
	a.now = (struct admission_now){.known = true, .available_mb = 1000, .pressure = 1000};
	assert_null(admission_next(&a));
	assert_int_equal(admission_why(&a, &t), LACK_PRESSURE);
	assert_true(admission_full(&a));
	a.now.pressure = 999;
	assert_ptr_equal(admission_next(&a), &t);
	a.now.pressure = 5000;
	assert_false(admission_room(&a, 10));
	a.now.known = false; /* nobody has looked: then it decides nothing */
	assert_true(admission_room(&a, 10));
}

static void snapshots(void **state)
{
	struct ticket t = {.memory_mb = 60};
	struct admission a;

	(void)state;
	init(&a, 10, 10, 100);
	a.now.sealed_mb = 50;
	admission_wait(&a, &t);
	assert_null(admission_next(&a));
	assert_int_equal(a.lack, LACK_MEMORY);
	a.now.sealed_mb = 40;
	assert_ptr_equal(admission_next(&a), &t);
}

/* While what runs has the processors, they start one by one, but they do start. */
static void busy(void **state)
{
	struct ticket t[3] = {0};
	struct admission a;

	(void)state;
	init(&a, 10, 2, 1000);
	for (unsigned i = 0; i < 3; i++)
		admission_wait(&a, &t[i]);
	a.now.busy = true;
	assert_ptr_equal(admission_next(&a), &t[0]);
	assert_null(admission_next(&a));
	assert_int_equal(a.lack, LACK_START);
	assert_false(admission_full(&a));
	a.now.busy = false;
	assert_ptr_equal(admission_next(&a), &t[1]);
	assert_null(admission_next(&a));
	a.now.busy = true;
	admission_started(&a, &t[0]);
	assert_null(admission_next(&a));
	admission_started(&a, &t[1]);
	assert_ptr_equal(admission_next(&a), &t[2]);
}

/* Two hundred of one owner, and one of another in their midst. */
static void burst(void **state)
{
	static struct ticket many[200];
	struct ticket one = {.owner = 2, .memory_mb = 10};
	struct ticket *running[4];
	struct admission a;
	unsigned served = 0, served_before_one = 0;

	(void)state;
	init(&a, 4, 2, 1000);
	for (unsigned i = 0; i < 200; i++) {
		many[i] = (struct ticket){.owner = 1, .memory_mb = 10};
		admission_wait(&a, &many[i]);
	}
	for (unsigned i = 0; i < 4; i++) {
		running[i] = admission_next(&a);
		assert_non_null(running[i]);
		admission_started(&a, running[i]);
	}
	admission_wait(&a, &one);
	while (a.running) {
		struct ticket *next;

		admission_release(&a, running[served % 4]);
		served++;
		next = admission_next(&a);
		running[(served - 1) % 4] = next;
		if (next == &one)
			served_before_one = served;
		if (next)
			admission_started(&a, next);
		assert_true(a.running <= 4 && a.memory_used_mb <= 40);
		assert_true(!a.waiting || next);
	}
	assert_int_equal(served, 201);
	assert_int_equal(served_before_one, 1); /* the first place that was given back */
}

/* Some may have more than others, some less, some as much as there is. */
static void owners(void **state)
{
	static const struct admission_owner own[] = {{2, 3, 30}, {3, 0, 0}, {4, 1, 1000}};
	const struct admission_limits l = {.places = 10,
					   .starting = 10,
					   .memory_mb = 100,
					   .owner_places = 2,
					   .owner_memory_mb = 50,
					   .owners = own,
					   .nowners = 3};
	struct ticket t[8] = {{1, 10}, {1, 10}, {2, 10}, {2, 10},
			      {2, 10}, {3, 10}, {3, 10}, {3, 10}};
	const struct ticket big = {1, 51}, big_2 = {2, 31}, big_3 = {3, 100}, big_4 = {4, 101};
	struct admission_owner may, has;
	struct admission a;

	(void)state;
	admission_init(&a, &l);
	assert_false(admission_possible(&a, &big));
	assert_false(admission_possible(&a, &big_2));
	assert_true(admission_possible(&a, &big_3));
	assert_false(admission_possible(&a, &big_4)); /* whoever he is, that is all there is */
	for (unsigned i = 0; i < 8; i++)
		admission_wait(&a, &t[i]);
	for (unsigned i = 0; i < 8; i++)
		assert_non_null(admission_next(&a));
	assert_false(admission_own_room(&a, 1, 10));
	assert_false(admission_own_room(&a, 2, 10));
	assert_true(admission_own_room(&a, 3, 10));
	admission_of(&a, 1, &may, &has);
	assert_int_equal(may.places, 2);
	assert_int_equal(may.memory_mb, 50);
	assert_int_equal(has.places, 2);
	assert_int_equal(has.memory_mb, 20);
	admission_of(&a, 2, &may, &has);
	assert_int_equal(may.places, 3);
	assert_int_equal(has.memory_mb, 30);
	admission_of(&a, 3, &may, &has);
	assert_int_equal(may.places, 0);
	assert_int_equal(has.places, 3);
	admission_of(&a, 9, &may, &has);
	assert_int_equal(may.places, 2);
	assert_int_equal(has.places, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits),     cmocka_unit_test(memory),
		cmocka_unit_test(fairness),   cmocka_unit_test(large_claims),
		cmocka_unit_test(own_limits), cmocka_unit_test(queue),
		cmocka_unit_test(one_by_one), cmocka_unit_test(host_memory),
		cmocka_unit_test(pressure),   cmocka_unit_test(snapshots),
		cmocka_unit_test(busy),	      cmocka_unit_test(burst),
		cmocka_unit_test(held),	      cmocka_unit_test(owners),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
