/* SPDX-License-Identifier: Apache-2.0 */
/* The agent as a process of this host: what the process backend and the one for tests share. */
#include "agent_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "vm/base/log.h"

static void part_gone(struct agent_process *h)
{
	if (--h->nopen)
		return;
	h->gone(h);
}

static void on_console_closed(struct reader *r)
{
	part_gone(r->data);
}

static void on_console(struct reader *r, const void *bytes, size_t len)
{
	struct agent_process *h = r->data;

	if (!h->destroying)
		h->events->console(h->data, bytes, len);
}

void agent_process_over(struct agent_process *h, const struct problem *p)
{
	h->child_gone = true;
	if (h->destroying)
		part_gone(h);
	else
		h->events->down(h->data, p);
}

void agent_process_started(struct child *c)
{
	struct agent_process *h = c->data;

	log_trace(c->label, "backend", "the agent runs, process %d", (int)c->pid);
	if (!h->destroying)
		h->events->up(h->data);
}

int agent_process_start(struct agent_process *h, const struct backend_spec *spec,
			agent_process_spawn_fn spawn, int *ret_stream)
{
	_cleanup_close_ int ours = -1, theirs = -1, out = -1, in = -1;
	int pair[2], p[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	in = p[0];
	out = p[1];
	h->child.data = h;
	if (spec)
		h->child.label = spec->label;
	r = spawn(h, spec, theirs, out);
	if (r < 0)
		return r;
	h->nopen = 1;
	h->console.data = h;
	h->console.bytes = on_console;
	h->console.closed = on_console_closed;
	if (reader_open(&h->console, h->all->ctx->loop, steal_fd(&in)) == 0)
		h->nopen++;
	*ret_stream = steal_fd(&ours);
	return 0;
}

void agent_process_destroy(struct agent_process *h)
{
	h->destroying = true;
	child_kill(&h->child);
	reader_close(&h->console);
	if (h->child_gone)
		part_gone(h);
}

void agent_process_drain(struct agent_process *h)
{
	if (h->console.open)
		reader_drain(&h->console);
}

pid_t agent_process_pid(const struct agent_process *h)
{
	return h->child.state == CHILD_RUNNING ? h->child.pid : 0;
}
