/* SPDX-License-Identifier: Apache-2.0 */
/* Agents that are late because their machine, or the daemon, has no processor: they are waited for, but not for ever. */
/* modules: tests/unit/fixture/sandbox_fixture.c tests/unit/fixture/fake_agent.c tests/unit/fixture/host_fixture.c vm */
/* libs: uv crypto jansson seccomp */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/host_fixture.h"
#include "tests/unit/fixture/sandbox_fixture.h"
#include "vm/guest/internal.h"

static struct host host;
static uint64_t waited;

/* Its machine has been without a processor for so much longer. */
static void starve(uint64_t ms)
{
	char text[64];

	waited += ms;
	snprintf(text, sizeof(text), "1000000 %llu 12\n", (unsigned long long)waited * 1000000);
	put("/proc/77/task/77/schedstat", text);
}

static int setup(void **state)
{
	if (host_fixture_setup(state) < 0 || sandbox_fixture_setup(state) < 0)
		return -1;
	fake_agent.pid = 77;
	waited = 1000000;
	starve(0);
	assert_int_equal(host_open(&host, root), 0);
	vm->guests.host = &host;
	return 0;
}

static int teardown(void **state)
{
	const int r = sandbox_fixture_teardown(state);

	host_close(&host);
	return host_fixture_teardown(state) < 0 ? -1 : r;
}

static struct guest *begin_run(unsigned timeout_ms)
{
	struct sandbox_run run = a_run(1);

	open_ready(&seen[0], 0);
	run.timeout_ms = timeout_ms;
	assert_int_equal(call_run(&seen[0], &run), 0);
	until(&seen[0], SANDBOX_RUNNING);
	return seen[0].s->guest;
}

/* The next step has passed, of which it was without a processor for so long. */
static void step(struct guest *g, uint64_t without)
{
	g->late.at_ms -= STARVED_STEP_MS;
	starve(without);
	g->deadline.timer_cb(&g->deadline);
}

static bool is_ending(const struct guest *g)
{
	return g->phase == GUEST_ENDING;
}

/* What has its time is given up as soon as it had it. */
static void has_time(void **state)
{
	struct guest *g = begin_run(1);
	unsigned n = 0;

	(void)state;
	g->deadline.timer_cb(&g->deadline);
	for (; n < 100 && !is_ending(g); n++)
		step(g, 0);
	assert_int_equal(n, 5);
	until_closed(&seen[0]);
	assert_int_equal(seen[0].result.outcome, VM_TIMEOUT);
	assert_int_equal(seen[0].problem.code, PROBLEM_AGENT_SILENT);
	assert_non_null(strstr(seen[0].problem.cause, "for 25 s"));
}

/* A tenth of a processor makes it ten times as long; and it ends its run. */
static void is_starved(void **state)
{
	struct guest *g = begin_run(1);

	(void)state;
	g->deadline.timer_cb(&g->deadline);
	for (unsigned n = 0; n < 45; n++)
		step(g, 4500);
	assert_false(is_ending(g));
	send_exit(1, PROTO_HOW_TIMEOUT, 124);
	until(&seen[0], SANDBOX_READY);
	assert_int_equal(seen[0].result.outcome, VM_TIMEOUT);
	/* The next one begins anew. */
	assert_false(g->late.on);
	run_one(&seen[0], 2);
	close_it(&seen[0]);
}

/* Who makes it wait himself does not do so for ever. */
static void is_starved_for_ever(void **state)
{
	struct guest *g = begin_run(1);
	unsigned n = 0;

	(void)state;
	g->deadline.timer_cb(&g->deadline);
	for (; n < 100 && !is_ending(g); n++)
		step(g, 50000);
	assert_int_equal(n, 60);
	until_closed(&seen[0]);
	assert_int_equal(seen[0].problem.code, PROBLEM_AGENT_SILENT);
}

/* The daemon had no processor itself: what it was told meanwhile it has yet to read. */
static void has_answered(void **state)
{
	struct guest *g = begin_run(1);

	(void)state;
	guest_deadline(g, 1);
	send_exit(1, PROTO_HOW_TIMEOUT, 124);
	usleep(20000);
	until(&seen[0], SANDBOX_READY);
	assert_int_equal(seen[0].result.outcome, VM_TIMEOUT);
	close_it(&seen[0]);
}

/* Who waits for output that is held does not wait for a processor. */
static void is_held(void **state)
{
	struct guest *g = begin_run(1);

	(void)state;
	guest_hold(g, true);
	g->deadline.timer_cb(&g->deadline);
	for (unsigned n = 0; n < 4; n++)
		step(g, 5000);
	assert_true(g->exec.held);
	step(g, 5000);
	assert_false(g->exec.held);
	assert_false(is_ending(g));
	for (unsigned n = 0; n < 10; n++)
		step(g, 5000);
	assert_false(is_ending(g));
	close_it(&seen[0]);
}

/* That one is to be killed is no other time. */
static void is_killed(void **state)
{
	struct guest *g = begin_run(0);
	unsigned n = 0;

	(void)state;
	assert_int_equal(sandbox_signal(seen[0].s, 1, SANDBOX_KILL), 0);
	for (; n < 10; n++)
		step(g, 5000);
	assert_false(is_ending(g));
	for (; n < 100 && !is_ending(g); n++)
		step(g, 0);
	assert_int_equal(n, 15);
	until_closed(&seen[0]);
	assert_int_equal(seen[0].result.outcome, VM_KILLED);
}

/* A fresh interpreter that does not come. */
static void is_reset(void **state)
{
	struct guest *g;
	unsigned n = 0;

	(void)state;
	open_ready(&seen[0], 0);
	g = seen[0].s->guest;
	in_call = true;
	assert_int_equal(sandbox_reset(seen[0].s), 0);
	in_call = false;
	g->deadline.timer_cb(&g->deadline);
	for (; n < 10; n++)
		step(g, 5000);
	assert_false(is_ending(g));
	step(g, 0);
	assert_true(is_ending(g));
	until_closed(&seen[0]);
	assert_non_null(strstr(seen[0].problem.cause, "no fresh interpreter came up within "));
}

/* Heartbeats without a word. */
static void is_quiet(void **state)
{
	struct guest *g = begin_run(0);
	unsigned n = 0;

	(void)state;
	for (; n < 40 && !is_ending(g); n++) {
		g->quiet.at_ms -= g->quiet.on ? GUEST_BEAT_MS : 0;
		starve(4000);
		vm->guests.beat.timer_cb(&vm->guests.beat);
	}
	assert_false(is_ending(g));
	assert_true(guest_is_silent(g));
	for (n = 0; n < 100 && !is_ending(g); n++) {
		g->quiet.at_ms -= GUEST_BEAT_MS;
		vm->guests.beat.timer_cb(&vm->guests.beat);
	}
	assert_int_equal(n, 11);
	until_closed(&seen[0]);
	assert_int_equal(seen[0].problem.code, PROBLEM_AGENT_SILENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(has_time),	 T(is_starved), T(is_starved_for_ever),
		T(has_answered), T(is_held),	T(is_killed),
		T(is_reset),	 T(is_quiet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
