/* SPDX-License-Identifier: Apache-2.0 */
/* The process that makes connections, shared by the networks of all sandboxes. */
#include "dialer_process.h"

#include <errno.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "vm/base/log.h"
#include "jail_spec.h"
#include "vm/order/order.h"
#include "vm/spawn/child.h"
#include "vm/base/util.h"

struct dial_child {
	LIST_ENTRY(dial_child) link;
	struct dialer_process *all;
	struct child child;
};

/* ---- its process ---- */

static void child_gone(struct dial_child *d)
{
	struct context *ctx = d->all->ctx;

	LIST_REMOVE(d, link);
	free(d);
	context_wake(ctx);
}

static void on_started(struct child *c)
{
	struct dial_child *d = c->data;

	d->all->seen = true;
	d->all->report = c->report;
}

static void on_failed(struct child *c, int err, const char *step)
{
	struct dial_child *d = c->data;

	log_error("xsbxfs-dial, without which no sandbox has a network: %s: %s", step,
		  strerror(-err));
	context_event(d->all->ctx, "network", "xsbxfs-dial was not started: %s: %s", step,
		      strerror(-err));
	child_gone(d);
}

static void on_exited(struct child *c, int status)
{
	struct dial_child *d = c->data;

	if (!c->doomed)
		log_warn("xsbxfs-dial ended: %s %d", WIFSIGNALED(status) ? "signal" : "status",
			 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	child_gone(d);
}

static int start_process(struct dialer_process *p, int sock)
{
	const struct order order = {.program = ORDER_DIALER};
	const struct spawn_spec s = {&order, sizeof(order), &sock, 1};
	struct dial_child *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return -ENOMEM;
	d->all = p;
	d->child.data = d;
	d->child.started = on_started;
	d->child.failed = on_failed;
	d->child.exited = on_exited;
	r = child_start(p->ctx->spawner, &s, &d->child);
	if (r < 0)
		free(d);
	else
		LIST_INSERT_HEAD(&p->children, d, link);
	return r;
}

/* It would end by itself at the end of file, but not before its lookups have. */
static void kill_processes(struct dialer_process *p)
{
	struct dial_child *d;

	LIST_FOREACH(d, &p->children, link)
		child_kill(&d->child);
}

static int on_start(struct dialer *dialer)
{
	struct dialer_process *p = container_of(dialer, struct dialer_process, dialer);
	int sv[2], r;

	kill_processes(p);
	if (!p->ctx->spawner)
		return -EPIPE;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return -errno;
	p->version = net_jail_resolver_version();
	r = start_process(p, sv[1]);
	close(sv[1]);
	if (r == 0)
		return sv[0];
	log_error("xsbxfs-dial can't be started: %s", strerror(-r));
	close(sv[0]);
	return r;
}

static bool is_stale(struct dialer *dialer)
{
	return net_jail_resolver_version() !=
	       container_of(dialer, struct dialer_process, dialer)->version;
}

static void on_dialer_closed(struct dialer *dialer)
{
	struct dialer_process *p = container_of(dialer, struct dialer_process, dialer);

	p->there = false;
	context_wake(p->ctx);
}

/* ---- */

struct dialer *dialer_process_get(struct dialer_process *p)
{
	if (p->there)
		return &p->dialer;
	LIST_INIT(&p->children);
	dialer_init(&p->dialer, p->ctx->loop);
	p->dialer.start = on_start;
	p->dialer.is_stale = is_stale;
	p->dialer.closed = on_dialer_closed;
	p->there = true;
	return &p->dialer;
}

uint32_t dialer_process_new_owner(struct dialer_process *p)
{
	if (++p->last_owner == 0)
		p->last_owner++;
	return p->last_owner;
}

const struct jail_report *dialer_process_report(const struct dialer_process *p)
{
	return p->seen ? &p->report : NULL;
}

bool dialer_process_close(struct dialer_process *p)
{
	if (p->there) {
		kill_processes(p);
		dialer_close(&p->dialer);
	}
	return !p->there && LIST_EMPTY(&p->children);
}
