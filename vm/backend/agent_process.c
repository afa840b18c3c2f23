/* SPDX-License-Identifier: Apache-2.0 */
/* The agent as a process of the host: shared by the process backend and the one for tests. */
#include "agent_process.h"

#include <errno.h>
#include <sys/socket.h>

#include "vm/base/log.h"
#include "vm/spawn/child_record.h"

static void on_console(struct program *p, const void *bytes, size_t len)
{
	struct agent_process *h = p->data;

	if (!h->destroying)
		h->events->console(h->data, bytes, len);
}

static void on_started(struct program *p)
{
	struct agent_process *h = p->data;

	log_trace(p->child.label, "backend", "the agent runs, process %d", (int)p->child.pid);
	if (h->started)
		h->started(h);
	/* The stream is there from the beginning. */
	if (!h->destroying)
		h->events->up(h->data);
}

static void on_exited(struct program *p)
{
	const struct agent_process *h = p->data;

	if (h->events->touched)
		h->events->touched(h->data);
}

static void on_over(struct program *p)
{
	struct agent_process *h = p->data;
	struct problem why;

	h->over = true;
	if (h->destroying) {
		h->gone(h);
		return;
	}
	h->explain(p, &why);
	h->events->down(h->data, &why);
}

static void on_last(struct deferred *d)
{
	struct agent_process *h = container_of(d, struct agent_process, last);

	h->gone(h);
}

int agent_process_start(struct agent_process *h, const struct order *order,
			const struct log_label *label, int card, int *ret_stream)
{
	struct context *ctx = h->all->ctx;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;

	const int fds[] = {pair[1], card};

	h->last.run = on_last;
	h->program = (struct program){.label = label,
				      .fds = fds,
				      .nfds = card < 0 ? 1 : 2,
				      .near = &pair[0],
				      .nnear = 1,
				      .bytes = on_console,
				      .started = on_started,
				      .exited = on_exited,
				      .over = on_over,
				      .data = h};
	r = program_start(&h->program, ctx->loop, ctx->spawner, order, sizeof(*order));
	h->program.fds = h->program.near = NULL;
	close(pair[1]);
	if (r < 0)
		close(pair[0]);
	else
		*ret_stream = pair[0];
	return r;
}

void agent_process_put(const struct agent_process *h, struct buf *out, struct fdbag *fds)
{
	program_put(&h->program, out, fds);
}

int agent_process_take(struct agent_process *h, const struct record_reader *fields,
		       struct fdbag *fds, const struct log_label *label)
{
	struct context *ctx = h->all->ctx;

	h->last.run = on_last;
	h->program = (struct program){.label = label,
				      .bytes = on_console,
				      .started = on_started,
				      .exited = on_exited,
				      .over = on_over,
				      .data = h};
	return program_take(&h->program, ctx->loop, ctx->spawner, *fields, fds);
}

void agent_process_destroy(struct agent_process *h)
{
	h->destroying = true;
	if (h->over)
		context_defer(h->all->ctx, &h->last);
	else
		child_kill(&h->program.child);
}

pid_t agent_process_pid(const struct agent_process *h)
{
	return h->program.child.state == CHILD_RUNNING ? h->program.child.pid : 0;
}
