/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's states, deadlines and results, with the agent played by the test. */
/* modules: tests/unit/fake_agent.c vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "fake_agent.h"
#include "vm/buf.h"
#include "vm/log.h"

#define MANY 8

/* What the callbacks of one sandbox said. */
struct seen {
	struct sandbox *s;
	enum sandbox_state states[16];
	unsigned nstates, nexits, nclosed;
	unsigned destroying_at_exit; /* sandboxes being taken down when the run's end was told */
	struct buf output[VM_NSTREAMS], console;
	uint32_t exit_run;
	struct vm_result result;
	bool asked;
	struct vm_problem problem;
	/* What to do in the next callback. */
	bool close_in_output, close_in_exit;
	const struct sandbox_run *run_in_exit, *run_in_ready;
	int run_result;
};

static uv_loop_t loop;
static struct vm *vm;
static struct seen seen[MANY];
static bool vm_gone, in_call;

static void on_state(void *data, enum sandbox_state state)
{
	struct seen *e = data;

	assert_false(in_call);
	assert_true(e->nstates < ARRAY_SIZE(e->states));
	e->states[e->nstates++] = state;
	if (state == SANDBOX_READY && e->run_in_ready) {
		e->run_result = sandbox_run(e->s, e->run_in_ready);
		e->run_in_ready = NULL;
	}
}

static void on_console(void *data, const void *bytes, size_t len)
{
	buf_append(&((struct seen *)data)->console, bytes, len);
}

static void on_output(void *data, uint32_t run, enum vm_stream stream, const void *bytes,
		      size_t len)
{
	struct seen *e = data;

	assert_false(in_call);
	assert_int_not_equal(run, 0);
	assert_int_equal(e->nclosed, 0);
	buf_append(&e->output[stream], bytes, len);
	if (e->close_in_output)
		sandbox_close(e->s);
}

static void on_exit_run(void *data, uint32_t run, const struct vm_result *result)
{
	struct seen *e = data;

	assert_false(in_call);
	assert_int_equal(e->nclosed, 0);
	e->nexits++;
	e->destroying_at_exit = fake_agent.destroying;
	if (e->close_in_exit)
		sandbox_close(e->s);
	e->exit_run = run;
	e->result = *result;
	if (e->run_in_exit)
		e->run_result = sandbox_run(e->s, e->run_in_exit);
	e->run_in_exit = NULL;
}

static void on_closed(void *data, const struct vm_problem *problem)
{
	struct seen *e = data;

	assert_false(in_call);
	e->nclosed++;
	e->asked = !problem;
	if (problem)
		e->problem = *problem;
	e->s = NULL;
}

static const struct sandbox_events events = {
	.state = on_state,
	.console = on_console,
	.output = on_output,
	.exit = on_exit_run,
	.closed = on_closed,
};

static void start_vm(void)
{
	const struct vm_config cfg = {
		.cache_dir = "/nonexistent",
		.runtime_dir = "/nonexistent",
		.qemu = "qemu",
		.agent = "agent",
		.accel = "auto",
		.max_vms = 4,
		.admission_s = 1,
		.boot_s = 1,
	};

	assert_int_equal(vm_new_with(&backend_fake, &loop, NULL, &cfg, NULL, NULL, &vm), 0);
}

static int setup(void **state)
{
	(void)state;
	memset(seen, 0, sizeof(seen));
	vm_gone = false;
	log_open(false, LOG_LEVEL_ERROR);
	uv_loop_init(&loop);
	fake_agent_init(&loop);
	start_vm();
	return 0;
}

static void on_vm_closed(void *data)
{
	assert_false(in_call);
	*(bool *)data = true;
}

static bool is_true(void *data)
{
	return *(bool *)data;
}

static int teardown(void **state)
{
	(void)state;
	vm_close(vm, on_vm_closed, &vm_gone);
	assert_true(fake_spin(is_true, &vm_gone));
	assert_int_equal(fake_agent.started, fake_agent.destroyed);
	for (unsigned i = 0; i < MANY; i++) {
		assert_null(seen[i].s);
		buf_clear(&seen[i].output[0]);
		buf_clear(&seen[i].output[1]);
		buf_clear(&seen[i].console);
	}
	fake_agent_fini();
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	return 0;
}

static void open_sandbox(struct seen *e, uid_t owner)
{
	static const struct sandbox_env env[] = {{"COLOUR", "blue"}};
	const struct sandbox_spec spec = {
		.name = "python-demo",
		.image = "python",
		.language = "python",
		.memory_mb = 192,
		.cpus = 1,
		.owner = owner,
		.env = env,
		.nenv = 1,
	};

	in_call = true;
	assert_int_equal(sandbox_new(vm, &spec, &events, e, &e->s), 0);
	in_call = false;
}

struct wish {
	struct seen *e;
	enum sandbox_state state;
};

static bool in_state(void *data)
{
	const struct wish *w = data;

	return w->e->nstates && w->e->states[w->e->nstates - 1] == w->state;
}

static void until(struct seen *e, enum sandbox_state state)
{
	struct wish w = {e, state};

	assert_true(fake_spin(in_state, &w));
}

static bool is_closed(void *data)
{
	return ((struct seen *)data)->nclosed > 0;
}

static void until_closed(struct seen *e)
{
	assert_true(fake_spin(is_closed, e));
	assert_int_equal(e->nclosed, 1);
}

static void close_it(struct seen *e)
{
	in_call = true;
	sandbox_close(e->s);
	sandbox_close(e->s);
	in_call = false;
	until_closed(e);
}

static void open_ready(struct seen *e, uid_t owner)
{
	open_sandbox(e, owner);
	until(e, SANDBOX_STARTING);
	fake_boot();
	until(e, SANDBOX_READY);
}

static struct sandbox_run a_run(uint32_t id)
{
	return (struct sandbox_run){
		.id = id,
		.code = "print(1)",
		.code_len = 8,
		.limit = {1000, 1000},
	};
}

static int call_run(struct seen *e, const struct sandbox_run *run)
{
	int r;

	in_call = true;
	r = sandbox_run(e->s, run);
	in_call = false;
	return r;
}

static void run_one(struct seen *e, uint32_t id)
{
	const struct sandbox_run run = a_run(id);

	assert_int_equal(call_run(e, &run), 0);
	until(e, SANDBOX_RUNNING);
}

static void send_output(uint32_t run, uint8_t stream, uint32_t sequence, const char *text)
{
	uint8_t bytes[4096];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	put_u32(&o, sequence);
	put_bytes(&o, text, strlen(text));
	fake_send(PROTO_OUTPUT, stream, run, bytes, o.len);
}

static void send_exit(uint32_t run, enum proto_how how, uint32_t status)
{
	const struct proto_exit e = {.how = how, .status = status, .wall_us = 1234};
	uint8_t bytes[128];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	proto_exit_pack(&o, &e);
	fake_send(PROTO_EXIT, 0, run, bytes, o.len);
}

static void send_ready(const char *version)
{
	uint8_t bytes[64];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	put_str(&o, proto_cstr(version));
	put_u64(&o, 1);
	fake_send(PROTO_READY, 0, 0, bytes, o.len);
}

static void send_hello_ok(void)
{
	uint8_t bytes[64];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	put_u32(&o, PROTO_VERSION);
	put_u32(&o, 1);
	put_u64(&o, 1);
	put_str(&o, proto_cstr("6.1"));
	fake_send(PROTO_HELLO_OK, 0, 0, bytes, o.len);
}

static bool has_exited(void *data)
{
	return ((struct seen *)data)->nexits > 0;
}

static void until_exit(struct seen *e)
{
	assert_true(fake_spin(has_exited, e));
}

static struct proto_in payload(const struct fake_frame *f)
{
	return (struct proto_in){f->payload, f->payload + f->h.length, false};
}

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
	assert_string_equal(seen[0].problem.code, "fake");
}

static void boot_deadline(void **state)
{
	(void)state;
	open_sandbox(&seen[0], 0);
	until(&seen[0], SANDBOX_STARTING);
	until_closed(&seen[0]);
	assert_string_equal(seen[0].problem.code, "boot-failed");
	assert_non_null(strstr(seen[0].problem.cause, "within 1 s"));
	assert_non_null(strstr(seen[0].problem.cause, "console shows nothing"));
}

static void boot_ends(void **state)
{
	(void)state;
	open_sandbox(&seen[0], 0);
	until(&seen[0], SANDBOX_STARTING);
	fake_send(PROTO_LOG, 0, 0, "one\nKernel panic: no\ntwo\n", 25);
	fake_settle();
	assert_int_equal(seen[0].console.len, 25);
	fake_down("qemu-exited", "QEMU ended");
	until_closed(&seen[0]);
	assert_string_equal(seen[0].problem.code, "boot-failed");
	assert_non_null(strstr(seen[0].problem.cause, "QEMU ended; "));
	assert_non_null(strstr(seen[0].problem.cause, "with: Kernel panic: no / two"));
}

static void setup_fails(void **state)
{
	uint8_t bytes[64];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	(void)state;
	open_sandbox(&seen[0], 0);
	until(&seen[0], SANDBOX_STARTING);
	fake_up();
	fake_free(fake_expect(PROTO_HELLO));
	send_hello_ok();
	put_u32(&o, ENOSPC);
	put_str(&o, proto_cstr("mount of /tmp"));
	fake_send(PROTO_FAILED, 0, 0, bytes, o.len);
	until_closed(&seen[0]);
	assert_string_equal(seen[0].problem.code, "setup-failed");
	assert_non_null(strstr(seen[0].problem.cause, "mount of /tmp: No space left"));
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
		{PROTO_HOW_TIMEOUT, VM_TIMEOUT, 124},
		{PROTO_HOW_KILLED, VM_KILLED, 137},
		{PROTO_HOW_OOM, VM_OOM, 137},
		{PROTO_HOW_REFUSED, VM_REFUSED, 0},
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

/* Code of which no byte has left never ran. The socket is full here, and nobody empties it. */
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

static void lost_if_sent(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	run_one(&seen[0], 1);
	fake_free(fake_expect(PROTO_RUN));
	fake_down("qemu-killed", "QEMU was killed by signal 9");
	until_closed(&seen[0]);
	assert_int_equal(seen[0].nexits, 1);
	assert_int_equal(seen[0].result.outcome, VM_LOST);
	assert_string_equal(seen[0].result.problem.code, "qemu-killed");
	assert_string_equal(seen[0].problem.code, "qemu-killed");
}

static void panic_is_named(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	fake_send(PROTO_LOG, 0, 0, "[ 9.1] Kernel panic - not syncing: out of memory\n", 49);
	fake_settle();
	fake_hang_up();
	fake_down("machine-off", "the machine switched itself off");
	until_closed(&seen[0]);
	assert_string_equal(seen[0].problem.code, "guest-panic");
	assert_non_null(strstr(seen[0].problem.cause, "not syncing: out of memory"));
}

static void hang_up_without_reason(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	fake_hang_up();
	until_closed(&seen[0]);
	assert_string_equal(seen[0].problem.code, "agent-lost");
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
	assert_string_equal(seen[0].result.problem.code, "closed");
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

/* An agent that does not end a run is ended itself, and the outcome is what had to come. */
static void silent_agent(void **state)
{
	struct sandbox_run run = a_run(1);

	(void)state;
	open_ready(&seen[0], 0);
	run.timeout_ms = 1;
	assert_int_equal(call_run(&seen[0], &run), 0);
	until(&seen[0], SANDBOX_RUNNING);
	sandbox_deadline(seen[0].s, 20); /* instead of five seconds */
	until_closed(&seen[0]);
	assert_int_equal(seen[0].result.outcome, VM_TIMEOUT);
	assert_int_equal(seen[0].result.status, 124);
	assert_string_equal(seen[0].problem.code, "agent-silent");
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

/* ---- streams ---- */

static void output_credit(void **state)
{
	static uint8_t piece[4 + (128 << 10)];
	struct sandbox_run run = a_run(1);
	struct fake_frame *f;

	(void)state;
	run.limit[VM_STDOUT] = 64 << 20;
	open_ready(&seen[0], 0);
	assert_int_equal(call_run(&seen[0], &run), 0);
	fake_free(fake_expect(PROTO_RUN));
	for (uint8_t i = 0; i < 4; i++) {
		piece[0] = i;
		fake_send(PROTO_OUTPUT, PROTO_STDOUT, 1, piece, sizeof(piece));
	}
	f = fake_expect(PROTO_CREDIT);
	assert_non_null(f);
	assert_int_equal(f->payload[0] | f->payload[1] << 8 | f->payload[2] << 16, 512 << 10);
	fake_free(f);
	close_it(&seen[0]);
	assert_int_equal(seen[0].output[VM_STDOUT].len, 512 << 10);
}

static void stdin_flow(void **state)
{
	static const char input[300000] = "first";
	struct sandbox_run run = a_run(1);
	uint8_t credit[4] = {0x10};
	struct fake_frame *f;

	(void)state;
	run.stdin_data = input;
	run.stdin_len = sizeof(input);
	open_ready(&seen[0], 0);
	assert_int_equal(call_run(&seen[0], &run), 0);
	f = fake_expect(PROTO_RUN);
	assert_int_equal(f->payload[0], PROTO_RUN_STDIN);
	fake_free(f);
	fake_settle();
	assert_false(fake_got(PROTO_STDIN));
	fake_send(PROTO_STDIN_CREDIT, 0, 1, credit, 4);
	f = fake_expect(PROTO_STDIN);
	assert_int_equal(f->h.length, 16);
	assert_int_equal(f->h.flags, 0);
	assert_memory_equal(f->payload, "first", 6);
	fake_free(f);
	memset(credit, 0x7f, 4);
	fake_send(PROTO_STDIN_CREDIT, 0, 1, credit, 4);
	for (size_t left = sizeof(input) - 16; left;) {
		f = fake_expect(PROTO_STDIN);
		assert_non_null(f);
		assert_true(f->h.length <= left);
		left -= f->h.length;
		assert_int_equal(f->h.flags, left ? 0 : PROTO_F_EOF);
		fake_free(f);
	}
	close_it(&seen[0]);
}

static void stdin_empty(void **state)
{
	struct sandbox_run run = a_run(1);
	struct fake_frame *f;

	(void)state;
	run.stdin_data = "";
	open_ready(&seen[0], 0);
	assert_int_equal(call_run(&seen[0], &run), 0);
	f = fake_expect(PROTO_STDIN);
	assert_int_equal(f->h.length, 0);
	assert_int_equal(f->h.flags, PROTO_F_EOF);
	fake_free(f);
	close_it(&seen[0]);
}

/* ---- a hostile agent ---- */

static void send_other_run(void)
{
	send_exit(2, PROTO_HOW_DONE, 0);
}

static void send_bad_status(void)
{
	send_exit(1, PROTO_HOW_DONE, 256);
}

static void send_bad_sequence(void)
{
	send_output(1, PROTO_STDOUT, 1, "x");
}

static void send_bad_stream(void)
{
	send_output(1, 3, 0, "x");
}

static void send_past_limit(void)
{
	char text[1100];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	send_output(1, PROTO_STDOUT, 0, text);
}

static void send_unknown_type(void)
{
	fake_send(999, 0, 0, "", 0);
}

static void send_huge(void)
{
	static const uint8_t header[PROTO_HEADER] = {0xff, 0xff, 0xff, 0xff, PROTO_PONG, 0, 0, 1};

	fake_send_raw(header, sizeof(header));
}

static void send_unasked_file(void)
{
	static const uint8_t no_error[4];

	fake_send(PROTO_FILE_REPLY, 0, 5, no_error, sizeof(no_error));
}

static void hostile(void **state)
{
	static void (*const sends[])(void) = {
		send_other_run,	 send_bad_status,   send_bad_sequence,
		send_bad_stream, send_past_limit,   send_unknown_type,
		send_huge,	 send_unasked_file, send_hello_ok,
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(sends); i++) {
		seen[0].nstates = seen[0].nexits = seen[0].nclosed = 0;
		open_ready(&seen[0], 0);
		run_one(&seen[0], 1);
		fake_free(fake_expect(PROTO_RUN));
		sends[i]();
		until_closed(&seen[0]);
		assert_string_equal(seen[0].problem.code, "agent-protocol");
		assert_int_equal(seen[0].result.outcome, VM_LOST);
	}
}

/* Frames of another generation are as if they had not been. */
static void other_generation(void **state)
{
	static const uint8_t bogus[] = {1, 0, 0, 0, PROTO_EXIT, 0, 0, 9, 1, 0, 0, 0, 0xff};

	(void)state;
	open_ready(&seen[0], 0);
	run_one(&seen[0], 1);
	fake_send_raw(bogus, sizeof(bogus));
	send_exit(1, PROTO_HOW_DONE, 0);
	until(&seen[0], SANDBOX_READY);
	close_it(&seen[0]);
}

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
	assert_string_equal(seen[4].problem.code, "no-place");
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
	assert_string_equal(seen[5].problem.code, "too-many-waiting");
	assert_non_null(strstr(seen[5].problem.fix, "admission_queue"));
	open_sandbox(&seen[6], 5); /* another's queue is not full */
	fake_settle();
	assert_int_equal(seen[6].nclosed, 0);
	assert_int_equal(vm->refused, 1);
}

/* ---- processors ---- */

/* Two sandboxes, of which the first one's run has the only processor. */
static void one_processor(void)
{
	slots_init(&vm->slots, 100, 100);
	open_ready(&seen[0], 0);
	open_ready(&seen[1], 1);
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
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(greets),
		T(comes_up),
		T(start_fails),
		T(boot_deadline),
		T(boot_ends),
		T(setup_fails),
		T(runs),
		T(next_run_in_exit),
		T(fixed_statuses),
		T(refused_if_unsent),
		T(lost_if_sent),
		T(panic_is_named),
		T(hang_up_without_reason),
		T(closes_in_output),
		T(signals),
		T(silent_agent),
		T(resets),
		T(output_credit),
		T(stdin_flow),
		T(stdin_empty),
		T(hostile),
		T(other_generation),
		T(waits_for_a_place),
		T(no_place_in_time),
		T(says_why_it_waits),
		T(too_many_wait),
		T(closed_while_waiting),
		T(waits_for_a_processor),
		T(processor_not_wanted),
		T(closed_while_it_waits_for_a_processor),
		T(result_before_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
