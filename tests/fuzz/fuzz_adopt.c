/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what a daemon leaves to the next one, which a guest may have taken over: records of sandboxes; and links. */
/* modules: tests/unit/fixture/fake_agent.c vm */
/* libs: uv crypto jansson seccomp zstd */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/unit/fixture/fake_agent.h"
#include "vm/base/fdbag.h"
#include "vm/base/log.h"
#include "vm/base/record.h"
#include "vm/spawn/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * {u8 how, u16 length of a record, record, bytes from its agent}. `how` 0: in a backend that takes everything; 1: in QEMU, and
 * what the record says is a process is one; but there is no spawner any more, so each of them fails when all was read.
 */

#define NFDS 24 /* more than a sandbox has */

static unsigned closes;

static void on_state(void *data, enum sandbox_state state)
{
	(void)data;
	assert(state < SANDBOX_CLOSING && !closes);
}

static void on_output(void *data, uint32_t run, enum vm_stream stream, const void *bytes,
		      size_t len)
{
	(void)data;
	(void)bytes;
	assert(run && stream < VM_NSTREAMS && len && !closes);
}

static void on_exit_run(void *data, uint32_t run, const struct vm_result *result)
{
	(void)data;
	assert(run && result->outcome < VM_NOUTCOMES && !closes);
}

static void on_closed(void *data, const struct problem *problem)
{
	(void)data;
	(void)problem;
	closes++;
}

static const struct sandbox_events events = {
	.state = on_state, .output = on_output, .exit = on_exit_run, .closed = on_closed};

static void on_gone(void *data)
{
	*(bool *)data = true;
}

static struct spawner *lost_spawner(void)
{
	struct spawner_ends ends = {.pid = 1};
	struct spawner *sp;
	int sv[2], tie[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, tie) < 0)
		abort();
	close(sv[1]);
	close(tie[1]);
	ends.sock = sv[0];
	ends.tie = tie[0];
	sp = spawner_new(&ends);
	if (!sp)
		abort();
	return sp;
}

static struct vm *start(uv_loop_t *loop, struct spawner *sp)
{
	const struct vm_config cfg = {.cache_dir = "/nonexistent",
				      .runtime_dir = "/nonexistent",
				      .qemu = "qemu",
				      .agent = "agent",
				      .accel = "tcg",
				      .max_vms = 4,
				      .admission_s = 5,
				      .boot_s = 5,
				      .stand_still = true};
	struct vm *vm;

	if (vm_new_with(sp ? &backend_qemu : &backend_fake, loop, sp, &cfg, NULL, NULL, &vm) < 0)
		abort();
	return vm;
}

/* All are the agent's stream. Return: its other end. */
static int fill(struct fdbag *fds)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		abort();
	fds->owned = true;
	fdbag_put(fds, pair[0]);
	for (int i = 1; i < NFDS; i++)
		fdbag_put(fds, fcntl(pair[0], F_DUPFD_CLOEXEC, 0));
	return pair[1];
}

static void adopt(uv_loop_t *loop, struct vm *vm, const uint8_t *record, size_t len,
		  const uint8_t *said, size_t nsaid)
{
	static const struct vm_held_node held[] = {{1, 1}, {2, 3}};
	const struct record_reader fields = record_reader(record, len);
	struct fdbag fds = {0};
	struct sandbox *s = NULL;
	int agent = fill(&fds), r;
	char sink[4096];

	r = sandbox_adopt(vm, &fields, &fds, &events, NULL, &s);
	assert(r <= 0 && (r < 0) == !s);
	if (s) {
		(void)sandbox_hold_nodes(s, held, 2);
		vm_go(vm);
		(void)!send(agent, said, nsaid, MSG_NOSIGNAL | MSG_DONTWAIT);
		for (int i = 0; i < 4; i++)
			uv_run(loop, UV_RUN_NOWAIT);
		while (recv(agent, sink, sizeof(sink), MSG_DONTWAIT) > 0)
			;
	}
	close(agent);
	fdbag_clear(&fds);
}

static void on_line(void *data, enum log_level level, const char *text)
{
	(void)data;
	assert(level < LOG_NLEVELS && text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spawner *sp;
	bool gone = false;
	uv_loop_t loop;
	struct vm *vm;
	size_t len;

	if (size < 3)
		return 0;
	log_open(LOG_LEVEL_DEBUG);
	log_divert(on_line, NULL);
	closes = 0;
	len = MIN(data[1] | (size_t)data[2] << 8, size - 3);
	sp = data[0] & 1 ? lost_spawner() : NULL;
	uv_loop_init(&loop);
	fake_agent_init(&loop);
	vm = start(&loop, sp);
	adopt(&loop, vm, data + 3, len, data + 3 + len, size - 3 - len);
	vm_close(vm, on_gone, &gone);
	while (!gone)
		uv_run(&loop, UV_RUN_ONCE);
	assert(closes <= 1);
	fake_agent_fini();
	uv_run(&loop, UV_RUN_DEFAULT);
	assert(uv_loop_close(&loop) == 0);
	spawner_stop(sp);
	return 0;
}
