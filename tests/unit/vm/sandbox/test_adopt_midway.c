/* SPDX-License-Identifier: Apache-2.0 */
/* Another daemon goes on with sandboxes in the middle of something: a reset, a freeze, a save, an end. */
/* modules: vm tests/unit/fixture/daemon_fixture.c */
/* libs: uv crypto jansson seccomp zstd */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/fixture/daemon_fixture.h"
#include "vm/checkpoint/saved.h"
#include "vm/guest/internal.h"
#include "vm/sandbox/network_internal.h"

static void turn(void)
{
	uv_run(&here->loop, UV_RUN_NOWAIT);
}

/* ---- resets, and new owners ---- */

/* Of each READY is told once, whichever of the two daemons hears it. */
static void reset(void **state)
{
	static struct heard h;
	static const unsigned ms[] = {0, 1, 5, 20, 60, 200};

	(void)state;
	start(&h);
	for (unsigned i = 0; i < ARRAY_SIZE(ms); i++) {
		run(&h, "x=1; sleep 1000 &");
		h.nready = 0;
		assert_int_equal(sandbox_reset(h.s), 0);
		if (ms[i])
			pass(ms[i]);
		replace(&h);
		replace(&h);
		await(&h, &h.nready, 1);
		pass(20);
		assert_int_equal(h.nready, 1);
		assert_string_equal(run(&h, "echo $x."), ".\n");
	}
	finish(&h);
}

static pid_t first_process(const struct heard *h)
{
	struct backend_info info;

	h->s->guest->ops->info(h->s->guest->backend, &info);
	return info.pid;
}

/* What does not come is waited for no longer than it would have been, and told in the same words. */
static void reset_in_vain(void **state)
{
	static struct heard h;
	const unsigned boot_s = cfg.boot_s;

	(void)state;
	start(&h);
	cfg.boot_s = 1;
	replace(&h);
	cfg.boot_s = boot_s;
	run(&h, "true");
	kill(first_process(&h), SIGSTOP);
	assert_int_equal(sandbox_reset(h.s), 0);
	replace(&h);
	await(&h, &h.nclosed, 1);
	assert_int_equal(h.problem.code, PROBLEM_AGENT_SILENT);
	assert_non_null(strstr(h.problem.cause, "within 1 s"));
	finish(&h);
}

/* It has just become somebody's, and the agent has not heard of him, or not answered. */
static void introduced(void **state)
{
	static struct heard h;
	struct sandbox_spec spec = spec_of("raw");
	struct sandbox_env env = {"WHO", ""};
	char number[8], code[32];

	(void)state;
	start(&h);
	spec.env = &env;
	spec.nenv = 1;
	env.value = number;
	for (unsigned i = 0; i < 6; i++) {
		snprintf(number, sizeof(number), "%u", i);
		snprintf(code, sizeof(code), "echo $WHO; [ $WHO = %u ]", i);
		/* As pool_take() does it. */
		assert_int_equal(guest_introduce(h.s->guest, &spec, &sandbox_guest_events, h.s), 0);
		for (unsigned k = 0; k < i; k++)
			turn();
		assert_true(i || h.s->guest->due == DUE_HELLO);
		replace(&h);
		replace(&h);
		run(&h, code);
		assert_int_equal(h.s->guest->due, DUE_NOTHING);
	}
	finish(&h);
}

/* ---- freezes, and saves ---- */

static const char beats[] = "(while :; do echo >>beat; sleep 0.01; done) &\n sleep 0.1";

/* Does what it has begun go on? */
static void expect_beats(struct heard *h)
{
	run(h, "a=$(wc -l <beat); for i in {1..500}; do b=$(wc -l <beat); "
	       "[ $b -gt $a ] && break; sleep 0.02; done; [ $b -gt $a ]");
}

/* That is told, and not again. */
static void is_frozen_once(struct heard *h)
{
	await(h, &h->nfrozen, 1);
	assert_int_equal(h->err_of_freeze, 0);
	pass(50);
	assert_int_equal(h->nfrozen, 1);
	assert_true(h->s->still);
}

static void freeze(void **state)
{
	static struct heard h;

	(void)state;
	start(&h);
	run(&h, beats);
	for (unsigned i = 0; i < 3; i++) {
		h.nfrozen = 0;
		assert_int_equal(sandbox_freeze(h.s), 0);
		for (unsigned k = 0; k < i; k++)
			turn();
		replace(&h);
		replace(&h);
		is_frozen_once(&h);
		sandbox_thaw(h.s);
		replace(&h);
		expect_beats(&h);
	}
	finish(&h);
}

/* Nothing comes of it; what runs goes on, unless it was paused before; and it can be done again at once. */
static void save_at(struct heard *h, enum save_step step, bool paused)
{
	const bool memory = in_machines();

	h->nsaved = h->nfrozen = 0;
	if (paused) {
		assert_int_equal(sandbox_freeze(h->s), 0);
		await(h, &h->nfrozen, 1);
	}
	assert_int_equal(sandbox_save(h->s, memory), 0);
	while (h->s->save.step != step && !h->nsaved)
		uv_run(&here->loop, UV_RUN_ONCE);
	assert_int_equal(h->s->save.step, step);
	replace(h);
	assert_int_equal(h->s->save.step, SAVE_NONE);
	assert_true(h->s->still == paused);
	/* What is still to come of it is over soon. */
	for (unsigned i = 0; sandbox_save(h->s, memory) == -EBUSY; i++) {
		assert_true(i < 10000);
		pass(1);
	}
	await(h, &h->nsaved, 1);
	if (!h->saved)
		fail_msg("%s", h->problem.cause);
	assert_true(saved_has_memory(h->saved) == memory);
	saved_unref(h->saved);
	assert_true(h->s->still == paused);
	sandbox_thaw(h->s);
	expect_beats(h);
}

static void save(void **state)
{
	static struct heard h;
	const enum save_step first = in_machines() ? SAVE_PREPARE : SAVE_FREEZE,
			     last = in_machines() ? SAVE_POINT : SAVE_PACK;

	(void)state;
	start(&h);
	run(&h, beats);
	run(&h, "head -c 30000000 /dev/zero | tr '\\0' x >f; x=1");
	for (enum save_step step = first; step <= last; step++)
		for (int paused = 0; paused < 2; paused++)
			save_at(&h, step, paused);
	assert_string_equal(run(&h, "wc -c <f; echo $x"), "30000000\n1\n");
	finish(&h);
}

/* A save is given up for a freeze, too: whoever asks gets the answer to his own question. */
static void freeze_instead(void **state)
{
	static struct heard h;

	(void)state;
	start(&h);
	run(&h, beats);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(sandbox_save(h.s, false), 0);
		replace(&h);
		h.nfrozen = 0;
		assert_int_equal(sandbox_freeze(h.s), 0);
		if (i)
			replace(&h);
		is_frozen_once(&h);
		sandbox_thaw(h.s);
		expect_beats(&h);
	}
	finish(&h);
}

/* ---- ends ---- */

/* Its owner hears all of it, once, and why. */
static void end_of_run(void **state)
{
	static struct heard h;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		start(&h);
		begin_run(&h, "sleep 1000", false);
		pass(50);
		guest_failf(h.s->guest, PROBLEM_GUEST_PANIC, "Do that.", "it is %s", "over");
		assert_int_equal(h.s->state, SANDBOX_CLOSING);
		for (unsigned k = 0; k < i; k++)
			turn();
		replace(&h);
		await(&h, &h.nclosed, 1);
		assert_int_equal(h.nexits, 1);
		assert_int_equal(h.result.outcome, VM_LOST);
		assert_int_equal(h.result.problem.code, PROBLEM_GUEST_PANIC);
		assert_string_equal(h.problem.cause, "it is over");
		assert_string_equal(h.problem.fix, "Do that.");
		assert_int_equal(h.nclosed, 1);
		finish(&h);
	}
}

/* What is known of a run's outcome stays so. */
static void end_of_late_run(void **state)
{
	static struct heard h;

	(void)state;
	start(&h);
	begin_run(&h, "sleep 1000", false);
	pass(50);
	exec_out_of_memory(h.s->guest);
	guest_failf(h.s->guest, PROBLEM_OUT_OF_MEMORY, "", "it had none");
	replace(&h);
	await(&h, &h.nclosed, 1);
	assert_int_equal(h.nexits, 1);
	assert_int_equal(h.result.outcome, VM_OOM);
	finish(&h);
}

/* Its agent has hung up, and why is to be heard in a moment. */
static void hang_up(void **state)
{
	static struct heard h;

	(void)state;
	start(&h);
	begin_run(&h, "sleep 1000", false);
	pass(50);
	kill(first_process(&h), SIGKILL);
	while (!uv_is_active((uv_handle_t *)&h.s->guest->grace) && !h.nclosed)
		uv_run(&here->loop, UV_RUN_ONCE);
	replace(&h);
	await(&h, &h.nclosed, 1);
	assert_int_equal(h.nexits, 1);
	assert_int_equal(h.result.outcome, VM_LOST);
	assert_int_equal(h.nclosed, 1);
	finish(&h);
}

/* Who is to be killed when nobody is there is killed. */
static void killed(void **state)
{
	static struct heard h;
	uint32_t id;

	(void)state;
	start(&h);
	for (unsigned i = 0; i < 3; i++) {
		id = begin_run(&h, "trap '' INT; while :; do :; done", false);
		pass(20);
		assert_int_equal(sandbox_signal(h.s, id, SANDBOX_INTERRUPT), 0);
		replace(&h);
		assert_int_equal(sandbox_signal(h.s, id, SANDBOX_KILL), 0);
		for (unsigned k = 0; k < i; k++)
			turn();
		replace(&h);
		replace(&h);
		await(&h, &h.nexits, 1);
		assert_int_equal(h.result.outcome, VM_KILLED);
	}
	assert_string_equal(run(&h, "echo on"), "on\n");
	finish(&h);
}

/* ---- networks ---- */

static void until_served(const struct heard *h)
{
	while (!h->nclosed && (!h->s->network->served || h->s->network->card >= 0))
		uv_run(&here->loop, UV_RUN_ONCE);
	if (h->nclosed)
		fail_msg("%s", h->problem.cause);
}

static void start_network(struct heard *h, const char *allow)
{
	struct sandbox_spec spec = spec_of("raw");

	spec.network = true;
	spec.allow = allow;
	start_as(h, &spec);
}

/* Its filter is on its way, and is another one's then: it has what it needs, and nothing was lost of what it was sent. */
static void filter_starts(void **state)
{
	static struct heard h;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		start_network(&h, "");
		assert_false(h.s->network->served);
		if (i)
			pass(2 * i);
		replace(&h);
		replace(&h);
		until_served(&h);
		assert_int_equal(h.s->network->card, -1);
		/* A name that is not allowed is refused by who is there. */
		run(&h, "getent ahostsv4 nowhere.test | grep -q 198.18.");
		if (h.nlost)
			fail_msg("%s", h.problem.cause);
		finish(&h);
	}
}

/* It has ended, and that is told once. */
static void filter_ends(void **state)
{
	static struct heard h;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		start_network(&h, "");
		until_served(&h);
		kill(h.s->network->filter.child.pid, SIGKILL);
		for (unsigned k = 0; k < i; k++)
			turn();
		replace(&h);
		await(&h, &h.nlost, 1);
		replace(&h);
		pass(20);
		assert_int_equal(h.nlost, 1);
		assert_int_equal(h.problem.code, PROBLEM_NETWORK_LOST);
		assert_string_equal(run(&h, "echo on"), "on\n");
		finish(&h);
	}
}

int main(void)
{
	const struct CMUnitTest child[] = {
		cmocka_unit_test_setup_teardown(reset, begin_child, end),
		cmocka_unit_test_setup_teardown(reset_in_vain, begin_child, end),
		cmocka_unit_test_setup_teardown(introduced, begin_child, end),
		cmocka_unit_test_setup_teardown(freeze, begin_child, end),
		cmocka_unit_test_setup_teardown(save, begin_child, end),
		cmocka_unit_test_setup_teardown(freeze_instead, begin_child, end),
		cmocka_unit_test_setup_teardown(end_of_run, begin_child, end),
		cmocka_unit_test_setup_teardown(end_of_late_run, begin_child, end),
		cmocka_unit_test_setup_teardown(hang_up, begin_child, end),
		cmocka_unit_test_setup_teardown(killed, begin_child, end),
	};
	const struct CMUnitTest process[] = {
		cmocka_unit_test_setup_teardown(reset, begin_process, end),
		cmocka_unit_test_setup_teardown(freeze, begin_process, end),
		cmocka_unit_test_setup_teardown(save, begin_process, end),
		cmocka_unit_test_setup_teardown(end_of_run, begin_process, end),
		cmocka_unit_test_setup_teardown(hang_up, begin_process, end),
		cmocka_unit_test_setup_teardown(filter_starts, begin_process, end),
		cmocka_unit_test_setup_teardown(filter_ends, begin_process, end),
	};
	const struct CMUnitTest machines[] = {
		cmocka_unit_test_setup_teardown(reset, begin_machine, end),
		cmocka_unit_test_setup_teardown(freeze, begin_machine, end),
		cmocka_unit_test_setup_teardown(save, begin_machine, end),
		cmocka_unit_test_setup_teardown(end_of_run, begin_machine, end),
	};

	leave(run_three("midway", child, process, machines));
}
