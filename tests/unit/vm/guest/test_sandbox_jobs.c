/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of a sandbox: beside its runs, and with an agent that is hostile. */
/* modules: tests/unit/fixture/sandbox_fixture.c tests/unit/fixture/fake_agent.c vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/fixture/sandbox_fixture.h"
#include "vm/guest/internal.h"
#include "vm/sandbox/internal.h"

#define JOB(n) (SANDBOX_JOB_ID + (n))

static struct sandbox_job a_job(uint32_t n)
{
	return (struct sandbox_job){
		.id = JOB(n),
		.code = proto_cstr("echo"),
		.env = {"A=b", 4},
		.limit = {1000, 1000},
	};
}

static int call_job(struct seen *e, const struct sandbox_job *job)
{
	int r;

	in_call = true;
	r = sandbox_job(e->s, job);
	in_call = false;
	return r;
}

/* Return: the frame has arrived at the agent. */
static void start_job(struct seen *e, uint32_t n)
{
	const struct sandbox_job job = a_job(n);
	struct fake_frame *f;

	assert_int_equal(call_job(e, &job), 0);
	f = fake_expect(PROTO_JOB);
	assert_non_null(f);
	assert_int_equal(f->h.id, JOB(n));
	fake_free(f);
}

static void send_gone(uint32_t n)
{
	fake_send(PROTO_JOB_GONE, 0, JOB(n), "", 0);
}

static void send_failed(uint32_t n, uint32_t error, const char *text)
{
	uint8_t bytes[512];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	put_u32(&o, error);
	put_str(&o, proto_cstr(text));
	fake_send(PROTO_FAILED, 0, JOB(n), bytes, o.len);
}

static void send_credit(uint32_t n, uint32_t credit)
{
	const uint8_t bytes[4] = {(uint8_t)credit, (uint8_t)(credit >> 8), (uint8_t)(credit >> 16),
				  (uint8_t)(credit >> 24)};

	fake_send(PROTO_STDIN_CREDIT, 0, JOB(n), bytes, 4);
}

static bool has_gone(void *data)
{
	return ((struct seen *)data)->ngone;
}

static bool has_room(void *data)
{
	return ((struct seen *)data)->nrooms;
}

static void forget(struct seen *e, uint32_t n)
{
	e->ngone = 0;
	assert_int_equal(sandbox_job_forget(e->s, JOB(n)), 0);
	assert_int_equal(sandbox_job_forget(e->s, JOB(n)), -ESRCH);
	fake_free(fake_expect(PROTO_JOB_FORGET));
	send_gone(n);
	assert_true(fake_spin(has_gone, e));
	assert_int_equal(e->gone_job, JOB(n));
}

static void until_exit_of(struct seen *e, uint32_t n)
{
	until_exit(e);
	assert_int_equal(e->exit_run, JOB(n));
	e->nexits = 0;
}

static void request(void **state)
{
	struct sandbox_job job = a_job(7);
	struct fake_frame *f;
	struct proto_job got;
	struct proto_in in;

	(void)state;
	job.argv = (struct proto_str){"a\0b c", 6};
	job.language = "python";
	job.cwd = "sub";
	job.timeout_ms = 1234;
	job.input = true;
	open_ready(&seen[0], 0);
	assert_int_equal(call_job(&seen[0], &job), 0);
	f = fake_expect(PROTO_JOB);
	assert_non_null(f);
	in = payload(f);
	assert_int_equal(proto_job_unpack(&in, &got), 0);
	assert_int_equal(got.flags, PROTO_RUN_STDIN);
	assert_int_equal(got.timeout_ms, 1234);
	assert_memory_equal(got.argv.data, "a\0b c", 6);
	assert_memory_equal(got.language.data, "python", 6);
	assert_memory_equal(got.cwd.data, "sub", 3);
	assert_memory_equal(got.env.data, "A=b", 4);
	assert_int_equal(got.limit[0], 1000);
	fake_free(f);
	close_it(&seen[0]);
	assert_int_equal(seen[0].nexits, 1);
	assert_int_equal(seen[0].result.outcome, VM_LOST);
}

static void beside_a_run(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	start_job(&seen[0], 1);
	run_one(&seen[0], 1);
	fake_free(fake_expect(PROTO_RUN));
	start_job(&seen[0], 2);
	send_output(JOB(2), PROTO_STDOUT, 0, "two");
	send_output(1, PROTO_STDERR, 0, "run");
	send_exit(JOB(1), PROTO_HOW_DONE, 3);
	until_exit_of(&seen[0], 1);
	assert_int_equal(seen[0].result.status, 3);
	send_exit(1, PROTO_HOW_DONE, 0);
	until(&seen[0], SANDBOX_READY);
	assert_int_equal(seen[0].exit_run, 1);
	seen[0].nexits = 0;
	assert_int_equal(sandbox_job_signal(seen[0].s, JOB(1), SANDBOX_KILL), -ESRCH);
	assert_int_equal(sandbox_job_signal(seen[0].s, JOB(2), SANDBOX_KILL), 0);
	fake_free(fake_expect(PROTO_SIGNAL));
	send_exit(JOB(2), PROTO_HOW_KILLED, 137);
	until_exit_of(&seen[0], 2);
	assert_int_equal(seen[0].result.outcome, VM_KILLED);
	assert_memory_equal(seen[0].output[VM_STDOUT].data, "two", 3);
	assert_memory_equal(seen[0].output[VM_STDERR].data, "run", 3);
	forget(&seen[0], 2);
	forget(&seen[0], 1);
	close_it(&seen[0]);
	assert_int_equal(seen[0].nexits, 0);
}

static void signals(void **state)
{
	struct fake_frame *f;

	(void)state;
	open_ready(&seen[0], 0);
	start_job(&seen[0], 1);
	assert_int_equal(sandbox_job_signal(seen[0].s, JOB(1), SANDBOX_SIGNAL + SIGHUP), 0);
	f = fake_expect(PROTO_SIGNAL);
	assert_int_equal(f->h.id, JOB(1));
	assert_int_equal(f->payload[0] | f->payload[1] << 8, PROTO_SIGNAL_NUMBER + SIGHUP);
	fake_free(f);
	assert_int_equal(sandbox_job_signal(seen[0].s, JOB(1), SANDBOX_SIGNAL), -EINVAL);
	assert_int_equal(sandbox_job_signal(seen[0].s, JOB(1), SANDBOX_SIGNAL + 65), -EINVAL);
	assert_int_equal(sandbox_job_signal(seen[0].s, JOB(9), SANDBOX_KILL), -ESRCH);
	close_it(&seen[0]);
}

/* As the agent says. Another status of 137 is not explained. */
static void out_of_memory(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	start_job(&seen[0], 1);
	start_job(&seen[0], 2);
	send_exit(JOB(1), PROTO_HOW_OOM, 137);
	until_exit_of(&seen[0], 1);
	assert_int_equal(seen[0].result.outcome, VM_OOM);
	assert_int_equal(seen[0].result.status, 137);
	assert_string_equal(problem_code_str(seen[0].result.problem.code), "out-of-memory");
	send_exit(JOB(2), PROTO_HOW_DONE, 137);
	until_exit_of(&seen[0], 2);
	assert_int_equal(seen[0].result.outcome, VM_DONE);
	assert_int_equal(seen[0].result.problem.code, PROBLEM_NONE);
	close_it(&seen[0]);
}

static void not_started(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	start_job(&seen[0], 1);
	send_failed(1, ENOENT, "starting the program\033[2J");
	until_exit_of(&seen[0], 1);
	assert_int_equal(seen[0].result.outcome, VM_REFUSED);
	assert_string_equal(seen[0].result.problem.cause,
			    "the job could not be started: starting the program?[2J: No such file "
			    "or directory");
	forget(&seen[0], 1);
	close_it(&seen[0]);
}

/* No result of what its owner does not want to know any more. */
static void forgotten_early(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	start_job(&seen[0], 1);
	assert_int_equal(sandbox_job_forget(seen[0].s, JOB(1)), 0);
	send_exit(JOB(1), PROTO_HOW_DONE, 0);
	send_gone(1);
	assert_true(fake_spin(has_gone, &seen[0]));
	assert_int_equal(seen[0].nexits, 0);
	assert_int_equal(sandbox_freeze(seen[0].s), 0);
	close_it(&seen[0]);
}

/* As after a call for which there was no memory: the agent is told at the next heartbeat, and has its time from then. */
static void forgotten_without_memory(void **state)
{
	struct guest_job *j;

	(void)state;
	open_ready(&seen[0], 0);
	start_job(&seen[0], 1);
	j = guest_job_find(seen[0].s->guest, JOB(1));
	j->forgotten = j->untold = true;
	j->overdue = vm->guests.beats + 1;
	vm->guests.beat.timer_cb(&vm->guests.beat);
	fake_free(fake_expect(PROTO_JOB_FORGET));
	vm->guests.beat.timer_cb(&vm->guests.beat);
	fake_settle();
	assert_false(fake_got(PROTO_JOB_FORGET)); /* once */
	assert_int_equal(seen[0].nclosed, 0);
	send_gone(1);
	assert_true(fake_spin(has_gone, &seen[0]));
	close_it(&seen[0]);
	assert_int_equal(seen[0].nexits, 0);
}

static size_t write_to(uint32_t n, const void *data, size_t len, bool last)
{
	size_t taken;

	(void)sandbox_write(seen[0].s, JOB(n), data, len, last, &taken);
	return taken;
}

static void input(void **state)
{
	static const char bytes[3000] = "first";
	struct sandbox_job job = a_job(1);
	struct fake_frame *f;

	(void)state;
	job.input = true;
	open_ready(&seen[0], 0);
	assert_int_equal(call_job(&seen[0], &job), 0);
	fake_free(fake_expect(PROTO_JOB));
	assert_int_equal(write_to(1, bytes, sizeof(bytes), false), 0);
	send_credit(1, 1000);
	assert_true(fake_spin(has_room, &seen[0]));
	assert_int_equal(write_to(1, bytes, sizeof(bytes), true), 1000);
	f = fake_expect(PROTO_STDIN);
	assert_int_equal(f->h.length, 1000);
	assert_int_equal(f->h.flags, 0);
	fake_free(f);
	seen[0].nrooms = 0;
	send_credit(1, 5000);
	assert_true(fake_spin(has_room, &seen[0]));
	assert_int_equal(write_to(1, bytes, 2000, true), 2000);
	f = fake_expect(PROTO_STDIN);
	assert_int_equal(f->h.length, 2000);
	assert_int_equal(f->h.flags, PROTO_F_EOF);
	fake_free(f);
	/* Nobody reads it. */
	assert_int_equal(write_to(1, bytes, 2000, true), 2000);
	assert_int_equal(write_to(5, bytes, 2000, true), 2000);
	fake_settle();
	assert_false(fake_got(PROTO_STDIN));
	close_it(&seen[0]);
}

/* A megabyte, which is all that it may send without further credit. */
static void send_window(uint8_t sequence)
{
	static uint8_t piece[4 + (128 << 10)];

	for (uint8_t i = 0; i < 8; i++) {
		piece[0] = (uint8_t)(sequence + i);
		fake_send(PROTO_OUTPUT, PROTO_STDOUT, JOB(1), piece, sizeof(piece));
	}
}

static void held_output(void **state)
{
	struct sandbox_job job = a_job(1);

	(void)state;
	job.limit[VM_STDOUT] = 64 << 20;
	open_ready(&seen[0], 0);
	assert_int_equal(call_job(&seen[0], &job), 0);
	fake_free(fake_expect(PROTO_JOB));
	sandbox_job_hold(seen[0].s, JOB(1), true);
	send_window(0);
	fake_settle();
	assert_false(fake_got(PROTO_CREDIT));
	sandbox_job_hold(seen[0].s, JOB(1), false);
	fake_free(fake_expect(PROTO_CREDIT));
	close_it(&seen[0]);
}

static void reset_with_a_job(bool held)
{
	struct sandbox_job job = a_job(1);

	job.limit[VM_STDOUT] = 64 << 20;
	open_ready(&seen[0], 0);
	assert_int_equal(call_job(&seen[0], &job), 0);
	fake_free(fake_expect(PROTO_JOB));
	if (held) {
		sandbox_job_hold(seen[0].s, JOB(1), true);
		send_window(0);
		fake_settle();
		assert_false(fake_got(PROTO_CREDIT));
	}
	in_call = true;
	assert_int_equal(sandbox_reset(seen[0].s), 0);
	in_call = false;
	fake_free(fake_expect(PROTO_RESET));
}

/* What a job has still to say when it is killed by a reset is asked for: its end is behind that. */
static void output_during_reset(void **state)
{
	(void)state;
	reset_with_a_job(false);
	send_window(0);
	fake_settle();
	assert_true(fake_got(PROTO_CREDIT));
	send_window(8);
	send_exit(JOB(1), PROTO_HOW_KILLED, 137);
	until_exit_of(&seen[0], 1);
	assert_int_equal(seen[0].output[VM_STDOUT].len, 2 << 20);
	send_ready("Fake 1.1");
	until(&seen[0], SANDBOX_READY);
	close_it(&seen[0]);
}

/* A heartbeat, five seconds after the last one. */
static void beat(struct guest_job *j)
{
	j->late.at_ms -= GUEST_BEAT_MS;
	vm->guests.beat.timer_cb(&vm->guests.beat);
}

/* Beats until it is given up. */
static void outlast(struct guest_job *j)
{
	struct guest *g = seen[0].s->guest;

	for (int i = 0; i < 7 && g->phase == GUEST_UP; i++)
		beat(j);
}

static void held_at_reset(void **state)
{
	(void)state;
	reset_with_a_job(true);
	fake_settle();
	assert_true(fake_got(PROTO_CREDIT));
	fake_free(fake_expect(PROTO_CREDIT));
	sandbox_job_hold(seen[0].s, JOB(1), true); /* no more */
	send_window(8);
	fake_settle();
	assert_true(fake_got(PROTO_CREDIT));
	send_ready("Fake 1.1");
	until(&seen[0], SANDBOX_READY);
	vm->guests.beats += 20;
	outlast(guest_job_find(seen[0].s->guest, JOB(1)));
	until_closed(&seen[0]);
	assert_int_equal(seen[0].problem.code, PROBLEM_AGENT_SILENT);
}

/* As after calls for which there was no memory: neither credit nor input is forgotten. */
static void beats_without_memory(void **state)
{
	struct sandbox_job job = a_job(1);
	struct guest *g;

	(void)state;
	job.input = true;
	open_ready(&seen[0], 0);
	g = seen[0].s->guest;
	assert_int_equal(call_job(&seen[0], &job), 0);
	run_one(&seen[0], 1);
	fake_free(fake_expect(PROTO_RUN));
	g->exec.consumed = EXEC_WINDOW;
	guest_job_find(g, JOB(1))->exec.consumed = EXEC_WINDOW;
	guest_job_find(g, JOB(1))->exec.stdin_waits = true;
	vm->guests.beat.timer_cb(&vm->guests.beat);
	for (unsigned i = 0; i < 2; i++) {
		fake_settle();
		assert_true(fake_got(PROTO_CREDIT));
		fake_free(fake_expect(PROTO_CREDIT));
	}
	assert_int_equal(seen[0].nrooms, 1);
	vm->guests.beat.timer_cb(&vm->guests.beat);
	fake_settle();
	assert_false(fake_got(PROTO_CREDIT));
	assert_int_equal(seen[0].nrooms, 1);
	close_it(&seen[0]);
}

/* Whose output is held at its time may only be waiting for that. */
static void overdue_while_held(void **state)
{
	struct sandbox_job job = a_job(1);
	struct guest_job *j;

	(void)state;
	job.timeout_ms = 1000;
	open_ready(&seen[0], 0);
	assert_int_equal(call_job(&seen[0], &job), 0);
	fake_free(fake_expect(PROTO_JOB));
	sandbox_job_hold(seen[0].s, JOB(1), true);
	vm->guests.beats += 20;
	vm->guests.beat.timer_cb(&vm->guests.beat);
	j = guest_job_find(seen[0].s->guest, JOB(1));
	assert_true(j->late.on && j->exec.held);
	for (int i = 0; i < 5; i++)
		beat(j);
	fake_settle();
	assert_int_equal(seen[0].nclosed, 0);
	assert_false(j->exec.held);
	outlast(j);
	until_closed(&seen[0]);
	assert_int_equal(seen[0].problem.code, PROBLEM_AGENT_SILENT);
}

static void most(void **state)
{
	const struct sandbox_job more = a_job(PROTO_JOBS_MAX);
	static char code[PROTO_CODE_MAX];
	struct sandbox_job large = a_job(1);

	(void)state;
	large.code = large.argv = (struct proto_str){code, sizeof(code)};
	open_ready(&seen[0], 0);
	assert_int_equal(call_job(&seen[0], &large), -E2BIG);
	for (uint32_t n = 0; n < PROTO_JOBS_MAX; n++)
		start_job(&seen[0], n);
	assert_int_equal(call_job(&seen[0], &more), -EMFILE);
	forget(&seen[0], 3);
	assert_int_equal(call_job(&seen[0], &more), 0);
	assert_int_equal(sandbox_freeze(seen[0].s), -EBUSY);
	close_it(&seen[0]);
	assert_int_equal(seen[0].nexits, PROTO_JOBS_MAX);
}

static void not_up(void **state)
{
	const struct sandbox_job job = a_job(1);

	(void)state;
	open_sandbox(&seen[0], 0);
	assert_int_equal(call_job(&seen[0], &job), -EBUSY);
	close_it(&seen[0]);
}

/* A sandbox that runs a job uses its processors, and gives them back when the last one has ended. */
static void processors(void **state)
{
	(void)state;
	vm->slots.budget = vm->slots.most = 100;
	open_ready(&seen[0], 1);
	start_job(&seen[0], 1);
	start_job(&seen[0], 2);
	assert_int_equal(vm->slots.held, 1);
	run_one(&seen[0], 1);
	send_exit(1, PROTO_HOW_DONE, 0);
	until(&seen[0], SANDBOX_READY);
	assert_int_equal(vm->slots.held, 1);
	send_exit(JOB(1), PROTO_HOW_DONE, 0);
	seen[0].nexits = 0;
	until_exit_of(&seen[0], 1);
	assert_int_equal(vm->slots.held, 1);
	forget(&seen[0], 2);
	assert_int_equal(vm->slots.held, 0);
	close_it(&seen[0]);
}

/* ---- an agent that is hostile ---- */

static void send_exit_of_another(void)
{
	send_exit(JOB(2), PROTO_HOW_DONE, 0);
}

static void send_exit_twice(void)
{
	send_exit(JOB(1), PROTO_HOW_DONE, 0);
	send_exit(JOB(1), PROTO_HOW_DONE, 0);
}

static void send_output_late(void)
{
	send_exit(JOB(1), PROTO_HOW_DONE, 0);
	send_output(JOB(1), PROTO_STDOUT, 0, "x");
}

static void send_no_jobs_end(void)
{
	send_exit(JOB(1), PROTO_HOW_GONE, 0);
}

static void send_gone_unasked(void)
{
	send_gone(1);
}

static void send_gone_of_another(void)
{
	send_gone(2);
}

static void send_failed_with_more(void)
{
	static const uint8_t bytes[] = {1, 0, 0, 0, 0, 0, 0, 0, 9};

	fake_send(PROTO_FAILED, 0, JOB(1), bytes, sizeof(bytes));
}

static void send_past_limit(void)
{
	char text[1100];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	send_output(JOB(1), PROTO_STDOUT, 0, text);
}

static void send_much_credit(void)
{
	send_credit(1, 0xffffffff);
}

static void hostile(void **state)
{
	static void (*const sends[])(void) = {
		send_exit_of_another,  send_exit_twice,	  send_output_late,
		send_no_jobs_end,      send_gone_unasked, send_gone_of_another,
		send_failed_with_more, send_past_limit,	  send_much_credit,
	};
	struct sandbox_job job = a_job(1);

	(void)state;
	job.input = true;
	for (unsigned i = 0; i < ARRAY_SIZE(sends); i++) {
		seen[0].nstates = seen[0].nexits = seen[0].nclosed = 0;
		open_ready(&seen[0], 0);
		assert_int_equal(call_job(&seen[0], &job), 0);
		fake_free(fake_expect(PROTO_JOB));
		sends[i]();
		until_closed(&seen[0]);
		assert_string_equal(problem_code_str(seen[0].problem.code), "agent-protocol");
		assert_int_equal(seen[0].nexits, 1);
	}
}

/* ---- an agent that reads nothing, and knows what is on its way ---- */

#define UNREAD 4 /* so many turns of the loop are enough for all that the agent says */

static void say_exit(uint32_t n)
{
	send_exit(JOB(n), PROTO_HOW_DONE, 0);
}

static void say_output(uint32_t n)
{
	send_output(JOB(n), PROTO_STDOUT, 0, "x");
}

static void say_failed_and_gone(uint32_t n)
{
	send_failed(n, ENOENT, "starting the program");
	send_gone(n);
}

static void say_exit_and_gone(uint32_t n)
{
	say_exit(n);
	send_gone(n);
}

static void say_gone_forgotten(uint32_t n)
{
	assert_int_equal(sandbox_job_forget(seen[0].s, JOB(n)), 0);
	send_gone(n);
}

static void say_credit(uint32_t n)
{
	send_credit(n, 1000);
}

static void say_deaf(uint32_t n)
{
	fake_send(PROTO_STDIN_CLOSED, 0, JOB(n), "", 0);
}

/* Two jobs, of which the first is partly sent, the second not at all. */
static void open_unread(void)
{
	static char code[PROTO_CODE_MAX / 2];
	struct sandbox_job job = a_job(1);

	memset(code, '#', sizeof(code));
	job.input = true;
	job.code = (struct proto_str){code, sizeof(code)};
	memset(&seen[0], 0, sizeof(seen[0]));
	open_ready(&seen[0], 0);
	assert_int_equal(call_job(&seen[0], &job), 0);
	job = a_job(2);
	job.input = true;
	assert_int_equal(call_job(&seen[0], &job), 0);
}

/* Whatever the agent says of a job that it was not sent makes no sense, and the job never ran; then it reads on. */
static void answers_unread(void **state)
{
	static void (*const says[])(uint32_t n) = {
		say_failed_and_gone, say_exit_and_gone, say_exit, say_output,
		say_gone_forgotten,  say_credit,	say_deaf,
	};

	(void)state;
	for (unsigned i = 0; i < 2 * ARRAY_SIZE(says); i++) {
		const bool forgets = says[i / 2] == say_gone_forgotten;

		open_unread();
		says[i / 2](1 + i % 2);
		for (unsigned turn = 0; turn < UNREAD; turn++)
			uv_run(&loop, UV_RUN_NOWAIT);
		fake_settle();
		until_closed(&seen[0]);
		assert_string_equal(problem_code_str(seen[0].problem.code), "agent-protocol");
		assert_int_equal(seen[0].nexits, forgets ? 1 : 2);
		assert_int_equal(seen[0].result.outcome, VM_REFUSED);
		assert_null(seen[0].output[VM_STDOUT].data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, sandbox_fixture_setup, sandbox_fixture_teardown)
		T(request),
		T(beside_a_run),
		T(signals),
		T(out_of_memory),
		T(not_started),
		T(forgotten_early),
		T(input),
		T(held_output),
		T(overdue_while_held),
		T(most),
		T(not_up),
		T(processors),
		T(hostile),
		T(beats_without_memory),
		T(forgotten_without_memory),
		T(output_during_reset),
		T(held_at_reset),
		T(answers_unread),
		T(output_during_reset),
		T(forgotten_without_memory),
		T(held_at_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
