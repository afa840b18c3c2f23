/* SPDX-License-Identifier: Apache-2.0 */
/* What sandboxes take from the host is told to whose it is: once, all of it, and not what was used before. */
/* modules: tests/unit/fixture/sandbox_fixture.c tests/unit/fixture/fake_agent.c vm */
/* libs: uv crypto jansson seccomp */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/fixture/sandbox_fixture.h"
#include "vm/guest/internal.h"
#include "vm/sandbox/internal.h"

static struct {
	uid_t owner;
	uint64_t us, bytes;
	unsigned n;
} told;

static void on_spent(void *data, uid_t owner, uint64_t us, uint64_t bytes)
{
	(void)data;
	told.owner = owner;
	told.us += us;
	told.bytes += bytes;
	told.n++;
}

static const struct vm_events listening = {.spent = on_spent};

static int setup(void **state)
{
	const int r = sandbox_fixture_setup(state);

	memset(&told, 0, sizeof(told));
	vm->events = &listening;
	return r;
}

static bool was_told(void *data)
{
	return told.us >= *(const uint64_t *)data;
}

static void sums(void **state)
{
	struct seen *e = &seen[0];
	uint64_t want = 1000000;

	(void)state;
	open_ready(e, 42);
	fake_agent.used_us = 1000000; /* the start counts as well */
	assert_true(fake_spin(was_told, &want));
	assert_int_equal(told.us, 1000000);
	assert_int_equal(told.owner, 42);
	/* At the end of a run, however little it is; and not twice. */
	fake_agent.used_us += 7;
	run_one(e, 1);
	send_exit(1, PROTO_HOW_DONE, 0);
	until_exit(e);
	assert_int_equal(told.us, 1000007);
	meter_look(e->s);
	meter_look(e->s);
	assert_int_equal(told.us, 1000007);
	/* What is less than before is nothing. */
	fake_agent.used_us = 5;
	meter_look(e->s);
	assert_int_equal(told.us, 1000007);
	/* What comes between the last look and the end. */
	fake_agent.used_us = 2000000;
	close_it(e);
	assert_int_equal(told.us, 2000000);
}

/* Little is told of who does next to nothing: it would be written down each time. */
static void little(void **state)
{
	struct seen *e = &seen[0];
	unsigned n;

	(void)state;
	open_ready(e, 42);
	fake_agent.used_us = 100000;
	meter_look(e->s);
	n = told.n;
	fake_agent.used_us += 10;
	vm->metering.timer_cb(&vm->metering);
	for (unsigned i = 0; i < 10; i++)
		vm->metering.timer_cb(&vm->metering);
	assert_int_equal(told.n, n);
	fake_agent.used_us += 10000;
	for (unsigned i = 0; i < 10; i++)
		vm->metering.timer_cb(&vm->metering);
	assert_int_equal(told.n, n + 1);
	close_it(e);
}

/* What a guest of the pool did before. */
static void of_the_pool(void **state)
{
	struct seen *e = &seen[0];

	(void)state;
	open_ready(e, 42);
	fake_agent.used_us = 700000;
	meter_begin(e->s);
	meter_look(e->s);
	assert_int_equal(told.us, 0);
	fake_agent.used_us += 300000;
	meter_look(e->s);
	assert_int_equal(told.us, 300000);
	/* Another guest begins anew. */
	meter_over(e->s);
	fake_agent.used_us = 1000;
	meter_look(e->s);
	assert_int_equal(told.us, 301000);
	close_it(e);
}

static void for_all(void **state)
{
	struct seen *e = &seen[0];

	(void)state;
	open_ready(e, 42);
	e->s->meter.free = true;
	fake_agent.used_us = 700000;
	meter_look(e->s);
	assert_int_equal(told.n, 0);
	e->s->meter.free = false;
	e->s->meter.payer = 43;
	fake_agent.used_us = 800000;
	meter_look(e->s);
	assert_int_equal(told.us, 100000);
	assert_int_equal(told.owner, 43);
	close_it(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(sums, setup, sandbox_fixture_teardown),
		cmocka_unit_test_setup_teardown(little, setup, sandbox_fixture_teardown),
		cmocka_unit_test_setup_teardown(of_the_pool, setup, sandbox_fixture_teardown),
		cmocka_unit_test_setup_teardown(for_all, setup, sandbox_fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
