/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox that is ready for file requests; the test plays its agent. */
#include "guestfile_bed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "vm/log.h"

uv_loop_t loop;
struct vm *vm;
struct sandbox *s;
bool ready, closed, vm_gone, in_call;
struct vm_problem problem;

static void on_state(void *data, enum sandbox_state state)
{
	(void)data;
	ready = state == SANDBOX_READY;
}

static void on_bytes(void *data, const void *bytes, size_t len)
{
	(void)data;
	(void)bytes;
	(void)len;
}

static void on_closed(void *data, const struct vm_problem *p)
{
	(void)data;
	closed = true;
	if (p)
		problem = *p;
}

static const struct sandbox_events events = {
	.state = on_state, .console = on_bytes, .closed = on_closed};

bool is_true(void *data)
{
	return *(bool *)data;
}

int guestfile_bed_setup(void **state)
{
	const struct vm_config cfg = {.cache_dir = "/nonexistent",
				      .runtime_dir = "/nonexistent",
				      .qemu = "qemu",
				      .agent = "agent",
				      .accel = "auto",
				      .max_vms = 4,
				      .admission_s = 5,
				      .boot_s = 5};
	const struct sandbox_spec spec = {
		.name = "a", .image = "raw", .language = "raw", .memory_mb = 192};

	(void)state;
	ready = closed = vm_gone = false;
	memset(&problem, 0, sizeof(problem));
	log_open(LOG_LEVEL_ERROR);
	uv_loop_init(&loop);
	fake_agent_init(&loop);
	assert_int_equal(vm_new_with(&backend_fake, &loop, NULL, &cfg, NULL, NULL, &vm), 0);
	assert_int_equal(sandbox_new(vm, &spec, &events, NULL, &s), 0);
	while (!fake_agent.started)
		uv_run(&loop, UV_RUN_ONCE);
	fake_boot();
	assert_true(fake_spin(is_true, &ready));
	return 0;
}

static void on_gone(void *data)
{
	*(bool *)data = true;
}

int guestfile_bed_teardown(void **state)
{
	(void)state;
	vm_close(vm, on_gone, &vm_gone);
	assert_true(fake_spin(is_true, &vm_gone));
	assert_true(closed);
	fake_agent_fini();
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	return 0;
}

static void on_answer(void *data, int err, const struct vm_file_reply *reply)
{
	struct answer *a = data;

	assert_false(in_call);
	assert_false(a->there);
	a->there = true;
	a->err = err;
	assert_true(err <= 0);
	assert_int_equal(!reply, err != 0);
	if (!reply)
		return;
	a->reply = *reply;
	if (reply->data) {
		a->data = malloc(reply->size + 1);
		memcpy(a->data, reply->data, reply->size);
		a->data[reply->size] = '\0';
	}
	for (size_t i = 0; i < reply->nentries; i++) {
		const size_t len = strlen(a->names);

		snprintf(a->names + len, sizeof(a->names) - len, "%s,", reply->entries[i].name);
	}
}

int ask(const struct vm_file *req, struct answer *a)
{
	int r;

	in_call = true;
	memset(a, 0, sizeof(*a));
	r = sandbox_file(s, req, on_answer, a);
	in_call = false;
	return r;
}

void until(struct answer *a)
{
	assert_true(fake_spin(is_true, &a->there));
}

void forget(struct answer *a)
{
	free(a->data);
	memset(a, 0, sizeof(*a));
}

/* Answers a request with a row of bytes. */
void answer(uint32_t id, uint32_t err, const void *data, size_t len)
{
	uint8_t *bytes = malloc(len + 4);
	struct proto_out o = {bytes, 0, len + 4, false};

	put_u32(&o, err);
	put_bytes(&o, data, len);
	fake_send(PROTO_FILE_REPLY, 0, id, bytes, o.len);
	free(bytes);
}

struct proto_in payload(const struct fake_frame *f)
{
	return (struct proto_in){f->payload, f->payload + f->h.length, false};
}
