/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's states, deadlines and results, with the agent played by the test. */
/* modules: tests/unit/fixture/sandbox_fixture.c tests/unit/fixture/fake_agent.c vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/fixture/sandbox_fixture.h"
#include "vm/guest/internal.h"

/* ---- the way up ---- */

static void greets(void **state)
{
	uint8_t entropy[PROTO_ENTROPY];
	struct fake_frame *f;
	struct proto_in in;

	(void)state;
	open_sandbox(&seen[0], 0);
	assert_int_equal(seen[0].nstates, 0);
	until(&seen[0], SANDBOX_STARTING);
	fake_settle();
	assert_false(fake_got(PROTO_HELLO)); /* not before the port is open */
	fake_up();
	f = fake_expect(PROTO_HELLO);
	assert_non_null(f);
	in = payload(f);
	assert_int_equal(get_u32(&in), PROTO_VERSION);
	assert_int_equal(get_u32(&in), 1);
	get_u64(&in);
	get_bytes(&in, entropy, sizeof(entropy));
	assert_int_equal(get_str(&in, 64).len, strlen("python-demo"));
	assert_true(get_end(&in));
	fake_free(f);
	close_it(&seen[0]);
	assert_true(seen[0].asked);
}

static void comes_up(void **state)
{
	struct proto_setup got;
	struct sandbox_info info;
	struct fake_frame *f;
	struct proto_in in;

	(void)state;
	open_sandbox(&seen[0], 0);
	sandbox_info(seen[0].s, &info);
	assert_int_equal(info.state, SANDBOX_WAITING);
	until(&seen[0], SANDBOX_STARTING);
	fake_up();
	fake_free(fake_expect(PROTO_HELLO));
	send_hello_ok();
	f = fake_expect(PROTO_SETUP);
	assert_non_null(f);
	in = payload(f);
	assert_int_equal(proto_setup_unpack(&in, &got), 0);
	assert_int_equal(got.nenv, 1);
	assert_memory_equal(got.env[0].value.data, "blue", 4);
	assert_true(got.files_bytes > 64 << 20 && got.files_bytes < 96 << 20);
	fake_free(f);
	send_ready("Python 3.14.0\x1b[0m");
	until(&seen[0], SANDBOX_READY);
	sandbox_info(seen[0].s, &info);
	assert_string_equal(info.interpreter, "Python 3.14.0[0m");
	close_it(&seen[0]);
}

static void start_fails(void **state)
{
	(void)state;
	fake_agent.start_error = -EIO;
	open_sandbox(&seen[0], 0);
	until_closed(&seen[0]);
	assert_string_equal(problem_code_str(seen[0].problem.code), "agent-failed");
}

static void boot_deadline(void **state)
{
	(void)state;
	open_sandbox(&seen[0], 0);
	until(&seen[0], SANDBOX_STARTING);
	until_closed(&seen[0]);
	assert_string_equal(problem_code_str(seen[0].problem.code), "boot-failed");
	assert_non_null(strstr(seen[0].problem.cause, "within 1 s"));
	assert_non_null(strstr(seen[0].problem.cause, "console shows nothing"));
	assert_non_null(strstr(seen[0].problem.fix, "boot_timeout_s"));
}

static void boot_ends(void **state)
{
	(void)state;
	open_sandbox(&seen[0], 0);
	until(&seen[0], SANDBOX_STARTING);
	fake_send(PROTO_LOG, 0, 0, "one\nKernel panic: no\ntwo\n", 25);
	fake_settle();
	assert_int_equal(seen[0].console.len, 25);
	fake_down(PROBLEM_QEMU_EXITED, "QEMU ended");
	until_closed(&seen[0]);
	assert_string_equal(problem_code_str(seen[0].problem.code), "boot-failed");
	assert_non_null(strstr(seen[0].problem.cause, "QEMU ended; "));
	assert_non_null(strstr(seen[0].problem.cause, "with: Kernel panic: no / two"));
}

static void send_failed(uint32_t error, const char *what)
{
	uint8_t bytes[64];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	put_u32(&o, error);
	put_str(&o, proto_cstr(what));
	fake_send(PROTO_FAILED, 0, 0, bytes, o.len);
}

static void setup_fails(void **state)
{
	(void)state;
	open_sandbox(&seen[0], 0);
	until(&seen[0], SANDBOX_STARTING);
	fake_up();
	fake_free(fake_expect(PROTO_HELLO));
	send_hello_ok();
	send_failed(ENOSPC, "mount of /tmp");
	until_closed(&seen[0]);
	assert_string_equal(problem_code_str(seen[0].problem.code), "setup-failed");
	assert_non_null(strstr(seen[0].problem.cause, "mount of /tmp: No space left"));
	assert_non_null(strstr(seen[0].problem.fix, "the next run tries again"));
}

/* ---- runs ---- */

static void runs(void **state)
{
	struct sandbox_run run = a_run(7);
	struct proto_run got;
	struct fake_frame *f;
	struct proto_in in;

	(void)state;
	open_ready(&seen[0], 0);
	assert_int_equal(call_run(&seen[0], &run), 0);
	assert_int_equal(seen[0].states[seen[0].nstates - 1], SANDBOX_READY);
	assert_int_equal(call_run(&seen[0], &run), -EBUSY);
	assert_int_equal(sandbox_reset(seen[0].s), -EBUSY);
	f = fake_expect(PROTO_RUN);
	in = payload(f);
	assert_int_equal(proto_run_unpack(&in, &got), 0);
	assert_int_equal(f->h.id, 7);
	assert_int_equal(got.flags, 0);
	assert_memory_equal(got.code.data, "print(1)", 8);
	fake_free(f);
	until(&seen[0], SANDBOX_RUNNING);
	send_output(7, PROTO_STDOUT, 0, "out");
	send_output(7, PROTO_STDERR, 1, "err");
	send_output(7, PROTO_STDOUT, 2, "put");
	send_exit(7, PROTO_HOW_DONE, 3);
	until_exit(&seen[0]);
	assert_int_equal(seen[0].result.outcome, VM_DONE);
	assert_int_equal(seen[0].result.status, 3);
	assert_int_equal(seen[0].result.wall_us, 1234);
	assert_string_equal(buf_str(&seen[0].output[VM_STDOUT]), "output");
	assert_string_equal(buf_str(&seen[0].output[VM_STDERR]), "err");
	until(&seen[0], SANDBOX_READY);
	f = fake_expect(PROTO_USAGE);
	assert_non_null(f);
	fake_free(f);
	close_it(&seen[0]);
	assert_int_equal(seen[0].nexits, 1);
}

static void send_usage(uint64_t files_used, uint32_t processes)
{
	const struct proto_usage u = {.files_used = files_used,
				      .files_total = 100,
				      .inodes_total = 100,
				      .processes = processes};
	uint8_t bytes[128];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	proto_usage_pack(&o, &u);
	fake_send(PROTO_USAGE_REPLY, 0, 0, bytes, o.len);
}

/* A run tells what it met, also if it was over when the sandbox was asked next. */
static void limits_reached(void **state)
{
	struct sandbox_usage u;
	uint8_t bytes[128];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	(void)state;
	open_ready(&seen[0], 0);
	seen[0].s->guest->spec.limits.processes = 10;
	run_one(&seen[0], 1);
	fake_free(fake_expect(PROTO_RUN));
	send_usage(7, 10);
	send_usage(7, 9);
	proto_exit_pack(&o, &(struct proto_exit){.how = PROTO_HOW_DONE});
	fake_send(PROTO_EXIT, PROTO_FULL_INODES, 1, bytes, o.len);
	until_exit(&seen[0]);
	assert_int_equal(seen[0].result.reached, VM_REACHED_PROCESSES | VM_REACHED_INODES);
	assert_int_equal(sandbox_usage(seen[0].s, &u), 0);
	assert_int_equal(u.reached, VM_REACHED_INODES);
	seen[0].nexits = 0;
	run_one(&seen[0], 2);
	send_exit(2, PROTO_HOW_DONE, 0);
	until_exit(&seen[0]);
	assert_int_equal(seen[0].result.reached, 0);
	assert_int_equal(sandbox_usage(seen[0].s, &u), 0);
	assert_int_equal(u.reached, 0);
	close_it(&seen[0]);
}

static void next_run_in_exit(void **state)
{
	const struct sandbox_run second = a_run(2);

	(void)state;
	open_ready(&seen[0], 0);
	run_one(&seen[0], 1);
	seen[0].run_in_exit = &second;
	send_exit(1, PROTO_HOW_DONE, 0);
	until_exit(&seen[0]);
	assert_int_equal(seen[0].run_result, 0);
	fake_free(fake_expect(PROTO_RUN));
	send_exit(2, PROTO_HOW_DONE, 0);
	until(&seen[0], SANDBOX_READY);
	assert_int_equal(seen[0].nexits, 2);
	close_it(&seen[0]);
}

static void fixed_statuses(void **state)
{
	static const struct {
		enum proto_how how;
		enum vm_outcome outcome;
		unsigned status;
	} rows[] = {
		{PROTO_HOW_TIMEOUT, VM_TIMEOUT, 124}, {PROTO_HOW_KILLED, VM_KILLED, 137},
		{PROTO_HOW_OOM, VM_OOM, 137},	      {PROTO_HOW_REFUSED, VM_REFUSED, 0},
		{PROTO_HOW_GONE, VM_REFUSED, 0},
	};

	(void)state;
	open_ready(&seen[0], 0);
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		seen[0].nexits = 0;
		run_one(&seen[0], i + 1);
		send_exit(i + 1, rows[i].how, 0);
		until_exit(&seen[0]);
		assert_int_equal(seen[0].result.outcome, rows[i].outcome);
		assert_int_equal(seen[0].result.status, rows[i].status);
		until(&seen[0], SANDBOX_READY);
	}
	close_it(&seen[0]);
}

static void ignore_reply(void *data, int err, const struct vm_file_reply *reply)
{
	(void)reply;
	*(int *)data = err;
}

/* Code that has not left never ran. The socket is full here, and nobody empties it. */
static void refused_if_unsent(void **state)
{
	static uint8_t zeroes[1 << 20];
	const struct vm_file write_request = {
		.op = VM_WRITE, .handle = 1, .data = zeroes, .size = sizeof(zeroes)};
	struct sandbox_run run = a_run(1);
	int err = 1;

	(void)state;
	open_ready(&seen[0], 0);
	fake_settle();
	in_call = true;
	assert_int_equal(sandbox_file(seen[0].s, &write_request, ignore_reply, &err), 0);
	in_call = false;
	assert_int_equal(call_run(&seen[0], &run), 0);
	sandbox_close(seen[0].s);
	while (!seen[0].nclosed)
		uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(err, -ESTALE);
	assert_int_equal(seen[0].nexits, 1);
	assert_int_equal(seen[0].result.outcome, VM_REFUSED);
}

/* Nor has it all left here: an agent that says how it ended lies. */
static void refused_if_partly_sent(void **state)
{
	static char code[PROTO_CODE_MAX];
	struct sandbox_run run = a_run(1);

	(void)state;
	memset(code, '#', sizeof(code));
	run.code = code;
	run.code_len = sizeof(code);
	open_ready(&seen[0], 0);
	assert_int_equal(call_run(&seen[0], &run), 0);
	send_output(1, PROTO_STDOUT, 0, "x");
	send_exit(1, PROTO_HOW_DONE, 0);
	while (!seen[0].nclosed)
		uv_run(&loop, UV_RUN_ONCE);
	assert_string_equal(problem_code_str(seen[0].problem.code), "agent-protocol");
	assert_int_equal(seen[0].nexits, 1);
	assert_int_equal(seen[0].result.outcome, VM_REFUSED);
	assert_null(seen[0].output[VM_STDOUT].data);
}

static void lost_if_sent(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	run_one(&seen[0], 1);
	fake_free(fake_expect(PROTO_RUN));
	fake_down(PROBLEM_QEMU_KILLED, "QEMU was killed by signal 9");
	until_closed(&seen[0]);
	assert_int_equal(seen[0].nexits, 1);
	assert_int_equal(seen[0].result.outcome, VM_LOST);
	assert_string_equal(problem_code_str(seen[0].result.problem.code), "qemu-killed");
	assert_string_equal(problem_code_str(seen[0].problem.code), "qemu-killed");
}

/* The first process of a sandbox is killed when memory has run out, and the run with it. */
static void out_of_memory(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	run_one(&seen[0], 1);
	fake_free(fake_expect(PROTO_RUN));
	fake_hang_up();
	fake_down(PROBLEM_OUT_OF_MEMORY, "its memory was full");
	until_closed(&seen[0]);
	assert_int_equal(seen[0].nexits, 1);
	assert_int_equal(seen[0].result.outcome, VM_OOM);
	assert_int_equal(seen[0].result.status, 137);
	assert_string_equal(problem_code_str(seen[0].problem.code), "out-of-memory");
}

static void panic_is_named(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	fake_send(PROTO_LOG, 0, 0, "[ 9.1] Kernel panic - not syncing: out of memory\n", 49);
	fake_settle();
	fake_hang_up();
	fake_down(PROBLEM_MACHINE_OFF, "the machine switched itself off");
	until_closed(&seen[0]);
	assert_string_equal(problem_code_str(seen[0].problem.code), "guest-panic");
	assert_non_null(strstr(seen[0].problem.cause, "not syncing: out of memory"));
}

static void last_words_are_quoted(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	fake_send(PROTO_LOG, 0, 0, "[ 9.1] reboot: Power down\n", 26);
	fake_settle();
	fake_hang_up();
	fake_down(PROBLEM_MACHINE_OFF, "the machine switched itself off");
	until_closed(&seen[0]);
	assert_string_equal(problem_code_str(seen[0].problem.code), "machine-off");
	assert_non_null(
		strstr(seen[0].problem.cause, "off; the console ends with: [ 9.1] reboot: P"));
}

static void hang_up_without_reason(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	fake_hang_up();
	until_closed(&seen[0]);
	assert_string_equal(problem_code_str(seen[0].problem.code), "agent-lost");
}

static void closes_in_output(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	run_one(&seen[0], 1);
	fake_free(fake_expect(PROTO_RUN));
	seen[0].close_in_output = true;
	send_output(1, PROTO_STDOUT, 0, "first");
	send_output(1, PROTO_STDOUT, 1, "second");
	send_exit(1, PROTO_HOW_DONE, 0);
	until_closed(&seen[0]);
	assert_string_equal(buf_str(&seen[0].output[VM_STDOUT]), "first");
	assert_int_equal(seen[0].nexits, 1);
	assert_int_equal(seen[0].result.outcome, VM_LOST);
	assert_string_equal(problem_code_str(seen[0].result.problem.code), "closed");
	assert_true(seen[0].asked);
}

static void signals(void **state)
{
	struct fake_frame *f;

	(void)state;
	open_ready(&seen[0], 0);
	assert_int_equal(sandbox_signal(seen[0].s, 1, SANDBOX_KILL), -ESRCH);
	run_one(&seen[0], 1);
	assert_int_equal(sandbox_signal(seen[0].s, 2, SANDBOX_KILL), -ESRCH);
	assert_int_equal(sandbox_signal(seen[0].s, 1, SANDBOX_INTERRUPT), 0);
	f = fake_expect(PROTO_SIGNAL);
	assert_int_equal(f->payload[0], PROTO_INTERRUPT);
	assert_int_equal(f->h.id, 1);
	fake_free(f);
	send_exit(1, PROTO_HOW_DONE, 130);
	until(&seen[0], SANDBOX_READY);
	close_it(&seen[0]);
}

static bool is_late(void *data)
{
	return ((struct guest *)data)->late.on;
}

/* An agent that does not end a run is ended itself, and the outcome is what had to come. */
static void silent_agent(void **state)
{
	struct sandbox_run run = a_run(1);

	(void)state;
	open_ready(&seen[0], 0);
	run.timeout_ms = 1;
	assert_int_equal(call_run(&seen[0], &run), 0);
	until(&seen[0], SANDBOX_RUNNING);
	guest_deadline(seen[0].s->guest, 20); /* instead of its time */
	assert_true(fake_spin(is_late, seen[0].s->guest));
	seen[0].s->guest->late.own_ms = 25000; /* and more */
	guest_deadline(seen[0].s->guest, 20);
	until_closed(&seen[0]);
	assert_int_equal(seen[0].result.outcome, VM_TIMEOUT);
	assert_int_equal(seen[0].result.status, 124);
	assert_string_equal(problem_code_str(seen[0].problem.code), "agent-silent");
}

static void resets(void **state)
{
	struct sandbox_run run = a_run(1);

	(void)state;
	open_ready(&seen[0], 0);
	in_call = true;
	assert_int_equal(sandbox_reset(seen[0].s), 0);
	assert_int_equal(sandbox_run(seen[0].s, &run), -EBUSY);
	in_call = false;
	fake_free(fake_expect(PROTO_RESET));
	until(&seen[0], SANDBOX_STARTING);
	send_ready("Fake 1.1");
	until(&seen[0], SANDBOX_READY);
	close_it(&seen[0]);
}

/* A clone that was greeted again: the answer to that waits. */
static void reset_fails(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	handshake_again(seen[0].s->guest);
	assert_int_equal(sandbox_reset(seen[0].s), 0);
	fake_agent.generation = seen[0].s->guest->generation;
	send_failed(EAGAIN, "starting the program");
	until_closed(&seen[0]);
	assert_string_equal(problem_code_str(seen[0].problem.code), "reset-failed");
	assert_non_null(strstr(seen[0].problem.cause, "starting the program"));
}

/* Nothing was asked that could fail. */
static void failed_unasked(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	send_failed(EAGAIN, "starting the program");
	until_closed(&seen[0]);
	assert_string_equal(problem_code_str(seen[0].problem.code), "agent-protocol");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, sandbox_fixture_setup, sandbox_fixture_teardown)
		T(greets),
		T(comes_up),
		T(start_fails),
		T(boot_deadline),
		T(boot_ends),
		T(setup_fails),
		T(runs),
		T(limits_reached),
		T(next_run_in_exit),
		T(fixed_statuses),
		T(refused_if_unsent),
		T(refused_if_partly_sent),
		T(lost_if_sent),
		T(out_of_memory),
		T(panic_is_named),
		T(last_words_are_quoted),
		T(hang_up_without_reason),
		T(closes_in_output),
		T(signals),
		T(silent_agent),
		T(resets),
		T(reset_fails),
		T(failed_unasked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
