/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that wait: for a place, and for a processor. */
/* modules: tests/unit/fixture/sandbox_fixture.c tests/unit/fixture/fake_agent.c vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/fixture/sandbox_fixture.h"

/* ---- admission ---- */

static void waits_for_a_place(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++)
		open_ready(&seen[i], i);
	open_sandbox(&seen[4], 4);
	fake_settle();
	assert_int_equal(seen[4].nstates, 0);
	close_it(&seen[1]);
	until(&seen[4], SANDBOX_STARTING);
}

static void no_place_in_time(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++)
		open_ready(&seen[i], i);
	open_sandbox(&seen[4], 9);
	until_closed(&seen[4]);
	assert_string_equal(problem_code_str(seen[4].problem.code), "no-place");
	assert_non_null(strstr(seen[4].problem.cause, "all 4 places are taken"));
	assert_non_null(strstr(seen[4].problem.fix, "max_vms"));
	assert_int_equal(seen[4].nstates, 0);
	assert_int_equal(vm->refused, 1);
}

static void says_why_it_waits(void **state)
{
	struct sandbox_wait w;

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		open_ready(&seen[i], i);
	assert_false(sandbox_waits(seen[0].s, &w));
	open_sandbox(&seen[4], 0);
	open_sandbox(&seen[5], 9);
	fake_settle();
	assert_true(sandbox_waits(seen[4].s, &w));
	assert_string_equal(w.what, "place");
	assert_string_equal(w.why, "all 4 places are taken");
	assert_int_equal(w.turn, 2); /* the other has nothing so far */
	assert_int_equal(w.of, 2);
	assert_true(sandbox_waits(seen[5].s, &w));
	assert_int_equal(w.turn, 1);
}

static void too_many_wait(void **state)
{
	(void)state;
	vm->admission.limits.owner_queue = 1;
	for (unsigned i = 0; i < 4; i++)
		open_ready(&seen[i], i);
	open_sandbox(&seen[4], 4);
	open_sandbox(&seen[5], 4);
	until_closed(&seen[5]); /* at once */
	assert_string_equal(problem_code_str(seen[5].problem.code), "too-many-waiting");
	assert_non_null(strstr(seen[5].problem.fix, "admission_queue"));
	open_sandbox(&seen[6], 5); /* another's queue is not full */
	fake_settle();
	assert_int_equal(seen[6].nclosed, 0);
	assert_int_equal(vm->refused, 1);
}

/* One is one. */
static void words_of_one(void **state)
{
	struct sandbox_wait w;

	(void)state;
	vm->admission.limits.places = 1;
	vm->admission.limits.queue = 1;
	open_ready(&seen[0], 0);
	open_sandbox(&seen[1], 1);
	fake_settle();
	assert_true(sandbox_waits(seen[1].s, &w));
	assert_string_equal(w.why, "the only place is taken");
	open_sandbox(&seen[2], 2);
	until_closed(&seen[2]);
	assert_string_equal(seen[2].problem.cause,
			    "1 other waits for a place for its sandbox already");
}

/* ---- processors ---- */

/* Two sandboxes of one user (another's first run waits for nobody), of which the first one's run has
 * the only processor. */
static void one_processor(void)
{
	slots_init(&vm->slots, 100, 100);
	open_ready(&seen[0], 0);
	open_ready(&seen[1], 0);
	run_one(&seen[0], 1);
}

static bool is_ready_again(void *data)
{
	return ((struct seen *)data)->nstates >= 3;
}

static void waits_for_a_processor(void **state)
{
	const struct sandbox_run run = a_run(1);
	struct sandbox_wait w;

	(void)state;
	one_processor();
	assert_int_equal(call_run(&seen[1], &run), -EAGAIN);
	assert_int_equal(call_run(&seen[1], &run), -EAGAIN);
	assert_true(sandbox_waits(seen[1].s, &w));
	assert_string_equal(w.what, "processor");
	assert_int_equal(w.turn, 1);
	fake_settle();
	assert_int_equal(seen[1].nstates, 2); /* it is READY, and nothing has begun */
	seen[1].run_in_ready = &run;
	close_it(&seen[0]);
	assert_true(fake_spin(is_ready_again, &seen[1]));
	assert_int_equal(seen[1].run_result, 0);
	until(&seen[1], SANDBOX_RUNNING);
	assert_false(sandbox_waits(seen[1].s, &w));
	send_exit(1, PROTO_HOW_DONE, 0);
	until_exit(&seen[1]);
	assert_int_equal(vm->slots.used, 0);
}

/* What was to run was withdrawn: the processor goes to the next one. */
static void processor_not_wanted(void **state)
{
	const struct sandbox_run run = a_run(1);

	(void)state;
	one_processor();
	open_ready(&seen[2], 2);
	assert_int_equal(call_run(&seen[1], &run), -EAGAIN);
	assert_int_equal(call_run(&seen[2], &run), -EAGAIN);
	seen[2].run_in_ready = &run;
	close_it(&seen[0]);
	assert_true(fake_spin(is_ready_again, &seen[2]));
	assert_int_equal(seen[2].run_result, 0);
	assert_int_equal(seen[1].nstates, 3);
	assert_int_equal(vm->slots.held, 1);
}

static void closed_while_it_waits_for_a_processor(void **state)
{
	const struct sandbox_run run = a_run(1);

	(void)state;
	one_processor();
	assert_int_equal(call_run(&seen[1], &run), -EAGAIN);
	close_it(&seen[1]);
	assert_int_equal(vm->slots.waiting, 0);
	assert_int_equal(seen[1].nexits, 0);
}

/* Results are told before anything is taken down. */
static void result_before_teardown(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	run_one(&seen[0], 1);
	seen[0].close_in_exit = true; /* as with fresh = yes */
	send_exit(1, PROTO_HOW_DONE, 0);
	until_closed(&seen[0]);
	assert_int_equal(seen[0].result.outcome, VM_DONE);
	assert_int_equal(seen[0].destroying_at_exit, 0);
	open_ready(&seen[1], 0);
	run_one(&seen[1], 1);
	close_it(&seen[1]); /* as with rmdir */
	assert_int_equal(seen[1].nexits, 1);
	assert_int_equal(seen[1].destroying_at_exit, 1); /* the first one's */
	assert_int_equal(fake_agent.destroying, 2);
}

static void closed_while_waiting(void **state)
{
	(void)state;
	open_sandbox(&seen[0], 0);
	close_it(&seen[0]);
	assert_true(seen[0].asked);
	assert_int_equal(fake_agent.started, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, sandbox_fixture_setup, sandbox_fixture_teardown)
		T(waits_for_a_place),
		T(no_place_in_time),
		T(says_why_it_waits),
		T(words_of_one),
		T(too_many_wait),
		T(closed_while_waiting),
		T(waits_for_a_processor),
		T(processor_not_wanted),
		T(closed_while_it_waits_for_a_processor),
		T(result_before_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
