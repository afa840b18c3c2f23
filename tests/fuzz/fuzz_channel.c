/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the host's end of the agent protocol: a sandbox with a run and file requests under way. */
/* modules: tests/unit/fixture/fake_agent.c vm */
/* libs: uv crypto jansson seccomp zstd */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "tests/unit/fixture/fake_agent.h"
#include "vm/guest/internal.h"
#include "vm/base/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * An even first byte: the rest is a stream of bytes, as it is. An odd one: the rest is a row of
 * {u8 type, u8 flags, u8 id, u8 length, payload} from which frames with right headers are made.
 */

static unsigned exits, closes, answers;
static uint64_t output;

static void on_state(void *data, enum sandbox_state state)
{
	(void)data;
	assert(state < SANDBOX_CLOSING);
	assert(!closes);
}

static void on_console(void *data, const void *bytes, size_t len)
{
	(void)data;
	assert(bytes && len);
}

static void on_output(void *data, uint32_t run, enum vm_stream stream, const void *bytes,
		      size_t len)
{
	(void)data;
	(void)bytes;
	assert(run == 1 && stream < VM_NSTREAMS && len && !exits && !closes);
	output += len;
	assert(output <= 2000);
}

static void on_changed(void *data, const struct sandbox_change *c)
{
	(void)data;
	assert(!closes && c->kind < PROTO_NCHANGES);
	assert(c->path.len <= PROTO_PATH_MAX && c->from.len <= PROTO_PATH_MAX);
	if (c->kind < PROTO_CHANGE_OVERFLOW)
		assert(c->path.len && c->path.data[0] != '/' &&
		       !memchr(c->path.data, '\0', c->path.len));
}

static void on_exit_run(void *data, uint32_t run, const struct vm_result *result)
{
	(void)data;
	assert(run == 1 && result->outcome < VM_NOUTCOMES && result->status < 256 && !closes);
	exits++;
}

static void on_closed(void *data, const struct problem *problem)
{
	(void)data;
	(void)problem;
	closes++;
}

static const struct sandbox_events events = {
	.state = on_state,
	.console = on_console,
	.output = on_output,
	.exit = on_exit_run,
	.changed = on_changed,
	.closed = on_closed,
};

static void on_answer(void *data, int err, const struct vm_file_reply *reply)
{
	const struct vm_file *req = data;

	answers++;
	assert(err <= 0 && !reply == (err != 0));
	if (!reply)
		return;
	if (req->op == VM_READ || req->op == VM_WRITE)
		assert(reply->size <= req->size);
	assert((reply->attr.mode & ~(uint32_t)(0170000 | 01777)) == 0);
	for (size_t i = 0; i < reply->nentries; i++)
		assert(reply->entries[i].name[0] && !strchr(reply->entries[i].name, '/'));
}

static struct vm_file requests[] = {
	{.op = VM_READ, .handle = 1, .size = 10},
	{.op = VM_READ, .handle = 1, .size = 300000},
	{.op = VM_WRITE, .handle = 1, .data = "hello", .size = 5},
	{.op = VM_READDIR, .handle = 1, .size = 4096},
	{.op = VM_LOOKUP, .node = 1, .name = "a"},
	{.op = VM_CREATE, .node = 1, .name = "a"},
	{.op = VM_READLINK, .node = 2},
	{.op = VM_GETATTR, .node = 2},
	{.op = VM_OPEN, .node = 2},
	{.op = VM_SEEK, .handle = 2},
	{.op = VM_STATFS},
	{.op = VM_UNLINK, .node = 1, .name = "b"},
	{.op = VM_ORIGIN, .node = 2},
};

static void feed_frames(struct channel *ch, const uint8_t *data, size_t size)
{
	uint8_t wire[PROTO_HEADER + 255];

	while (size >= 4) {
		const size_t len = data[3] < size - 4 ? data[3] : size - 4;
		struct proto_header h = {(uint32_t)len, data[0], data[1], ch->generation, data[2]};

		if (h.type == PROTO_FILE_REPLY)
			h.id |= 0x100; /* each slot in its first use */
		proto_header_pack(&h, wire);
		memcpy(wire + PROTO_HEADER, data + 4, len);
		if (channel_feed(ch, wire, PROTO_HEADER + len) < 0)
			return;
		data += 4 + len;
		size -= 4 + len;
	}
}

static void on_gone(void *data)
{
	*(bool *)data = true;
}

static void on_line(void *data, enum log_level level, const char *text)
{
	(void)data;
	assert(level < LOG_NLEVELS && strlen(text) < 2048);
	for (; *text; text++)
		assert(((unsigned char)*text >= ' ' && *text != 0x7f) || *text == '\t');
}

static struct vm *start(uv_loop_t *loop, struct sandbox **ret_sandbox)
{
	const struct vm_config cfg = {.cache_dir = "/nonexistent",
				      .runtime_dir = "/nonexistent",
				      .qemu = "qemu",
				      .agent = "agent",
				      .accel = "tcg",
				      .max_vms = 4,
				      .admission_s = 5,
				      .boot_s = 5};
	const struct sandbox_spec spec = {
		.name = "a", .image = "raw", .language = "raw", .memory_mb = 192};
	struct vm *vm;

	uv_loop_init(loop);
	fake_agent_init(loop);
	if (vm_new_with(&backend_fake, loop, NULL, &cfg, NULL, NULL, &vm) < 0 ||
	    sandbox_new(vm, &spec, &events, NULL, ret_sandbox) < 0)
		abort();
	while (!fake_agent.started)
		uv_run(loop, UV_RUN_NOWAIT);
	return vm;
}

/* Up at once, with a run and one of each request under way. */
static void set_up(struct sandbox *s)
{
	size_t taken;
	const struct sandbox_run run = {
		.id = 1, .code = "x", .code_len = 1, .input = true, .limit = {1000, 1000}};

	s->guest->version = PROTO_VERSION;
	s->guest->channel.generation = 1;
	s->guest->phase = GUEST_UP;
	s->state = SANDBOX_READY;
	sandbox_run(s, &run);
	sandbox_write(s, 1, "input", 5, false, &taken);
	sandbox_watch(s, true);
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
		sandbox_file(s, &requests[i], on_answer, &requests[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sandbox *s;
	bool gone = false, up;
	uv_loop_t loop;
	struct vm *vm;

	if (size < 1)
		return 0;
	log_open(LOG_LEVEL_DEBUG); /* so that what agents say of runs is looked at */
	log_divert(on_line, NULL);
	exits = closes = answers = 0;
	output = 0;
	vm = start(&loop, &s);
	up = !(data[0] & 2);
	if (up)
		set_up(s);
	if (data[0] & 1)
		feed_frames(&s->guest->channel, data + 1, size - 1);
	else if (channel_feed(&s->guest->channel, data + 1, (size - 1) / 2) == 0)
		channel_feed(&s->guest->channel, data + 1 + (size - 1) / 2,
			     size - 1 - (size - 1) / 2);
	uv_run(&loop, UV_RUN_NOWAIT);
	vm_close(vm, on_gone, &gone);
	while (!gone)
		uv_run(&loop, UV_RUN_NOWAIT);
	assert(closes == 1);
	assert(exits == (up ? 1 : 0));
	assert(answers == (up ? ARRAY_SIZE(requests) : 0));
	fake_agent_fini();
	uv_run(&loop, UV_RUN_DEFAULT);
	assert(uv_loop_close(&loop) == 0);
	return 0;
}
