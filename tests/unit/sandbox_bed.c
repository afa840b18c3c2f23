/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes whose agent is played by the test, and what their callbacks said. */
#include "sandbox_bed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "vm/log.h"

uv_loop_t loop;
struct vm *vm;
struct seen seen[MANY];
bool vm_gone, in_call;

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

int sandbox_bed_setup(void **state)
{
	(void)state;
	memset(seen, 0, sizeof(seen));
	vm_gone = false;
	log_open(LOG_LEVEL_ERROR);
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

int sandbox_bed_teardown(void **state)
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

void open_sandbox(struct seen *e, uid_t owner)
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

void until(struct seen *e, enum sandbox_state state)
{
	struct wish w = {e, state};

	assert_true(fake_spin(in_state, &w));
}

static bool is_closed(void *data)
{
	return ((struct seen *)data)->nclosed > 0;
}

void until_closed(struct seen *e)
{
	assert_true(fake_spin(is_closed, e));
	assert_int_equal(e->nclosed, 1);
}

void close_it(struct seen *e)
{
	in_call = true;
	sandbox_close(e->s);
	sandbox_close(e->s);
	in_call = false;
	until_closed(e);
}

void open_ready(struct seen *e, uid_t owner)
{
	open_sandbox(e, owner);
	until(e, SANDBOX_STARTING);
	fake_boot();
	until(e, SANDBOX_READY);
}

struct sandbox_run a_run(uint32_t id)
{
	return (struct sandbox_run){
		.id = id,
		.code = "print(1)",
		.code_len = 8,
		.limit = {1000, 1000},
	};
}

int call_run(struct seen *e, const struct sandbox_run *run)
{
	int r;

	in_call = true;
	r = sandbox_run(e->s, run);
	in_call = false;
	return r;
}

void run_one(struct seen *e, uint32_t id)
{
	const struct sandbox_run run = a_run(id);

	assert_int_equal(call_run(e, &run), 0);
	until(e, SANDBOX_RUNNING);
}

void send_output(uint32_t run, uint8_t stream, uint32_t sequence, const char *text)
{
	uint8_t bytes[4096];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	put_u32(&o, sequence);
	put_bytes(&o, text, strlen(text));
	fake_send(PROTO_OUTPUT, stream, run, bytes, o.len);
}

void send_exit(uint32_t run, enum proto_how how, uint32_t status)
{
	const struct proto_exit e = {.how = how, .status = status, .wall_us = 1234};
	uint8_t bytes[128];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	proto_exit_pack(&o, &e);
	fake_send(PROTO_EXIT, 0, run, bytes, o.len);
}

void send_ready(const char *version)
{
	uint8_t bytes[64];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	put_str(&o, proto_cstr(version));
	put_u64(&o, 1);
	fake_send(PROTO_READY, 0, 0, bytes, o.len);
}

void send_hello_ok(void)
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

void until_exit(struct seen *e)
{
	assert_true(fake_spin(has_exited, e));
}

struct proto_in payload(const struct fake_frame *f)
{
	return (struct proto_in){f->payload, f->payload + f->h.length, false};
}
