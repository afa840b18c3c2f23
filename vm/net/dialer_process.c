/* SPDX-License-Identifier: Apache-2.0 */
/* What the networks of all sandboxes share: the process that makes connections. */
#include "dialer_process.h"

#include <errno.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "dialer.h"
#include "vm/base/log.h"
#include "jail_spec.h"
#include "vm/spawn/order.h"
#include "vm/spawn/client.h"
#include "vm/base/util.h"
#include "vm/vm_internal.h"

/* A process that runs or is about to end. */
struct dial_process {
	LIST_ENTRY(dial_process) link;
	struct hub *hub;
	struct child child;
};

struct hub {
	struct vm *vm;
	struct dialer dialer;
	uint64_t version; /* of the files that the process sees */
	uint32_t last_owner;
	bool seen, dialer_closed;
	struct jail_report report;
	LIST_HEAD(, dial_process) processes;
};

static void try_end(struct hub *hub)
{
	if (!hub->dialer_closed || !LIST_EMPTY(&hub->processes))
		return;
	hub->vm->hub = NULL;
	context_wake(&hub->vm->ctx);
	free(hub);
}

/* ---- its process ---- */

static void process_gone(struct dial_process *p)
{
	struct hub *hub = p->hub;

	LIST_REMOVE(p, link);
	free(p);
	try_end(hub);
}

static void on_started(struct child *c)
{
	struct dial_process *p = c->data;

	p->hub->seen = true;
	p->hub->report = c->report;
}

static void on_failed(struct child *c, int err, const char *step)
{
	struct dial_process *p = c->data;

	log_error("xsbxfs-dial, without which no sandbox has a network: %s: %s", step,
		  strerror(-err));
	context_event(&p->hub->vm->ctx, "network", "xsbxfs-dial was not started: %s: %s", step,
		      strerror(-err));
	process_gone(p);
}

static void on_exited(struct child *c, int status)
{
	struct dial_process *p = c->data;

	if (!c->doomed)
		log_warn("xsbxfs-dial ended: %s %d", WIFSIGNALED(status) ? "signal" : "status",
			 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	process_gone(p);
}

static int start_process(struct hub *hub, int sock)
{
	const struct order order = {.program = ORDER_DIALER};
	const struct spawn_spec s = {&order, sizeof(order), &sock, 1};
	struct dial_process *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	p->hub = hub;
	p->child.data = p;
	p->child.started = on_started;
	p->child.failed = on_failed;
	p->child.exited = on_exited;
	r = child_start(hub->vm->ctx.spawner, &s, &p->child);
	if (r < 0)
		free(p);
	else
		LIST_INSERT_HEAD(&hub->processes, p, link);
	return r;
}

/* It would end by itself at the end of file, but not before its lookups have. */
static void kill_processes(struct hub *hub)
{
	struct dial_process *p;

	LIST_FOREACH(p, &hub->processes, link)
		child_kill(&p->child);
}

static int on_start(struct dialer *d)
{
	struct hub *hub = container_of(d, struct hub, dialer);
	int sv[2], r;

	kill_processes(hub);
	if (!hub->vm->ctx.spawner)
		return -EPIPE;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return -errno;
	hub->version = net_jail_resolver_version();
	r = start_process(hub, sv[1]);
	close(sv[1]);
	if (r == 0)
		return sv[0];
	log_error("xsbxfs-dial can't be started: %s", strerror(-r));
	close(sv[0]);
	return r;
}

static bool is_stale(struct dialer *d)
{
	return net_jail_resolver_version() != container_of(d, struct hub, dialer)->version;
}

static void on_dialer_closed(struct dialer *d)
{
	struct hub *hub = container_of(d, struct hub, dialer);

	hub->dialer_closed = true;
	try_end(hub);
}

/* ---- */

static struct hub *get(struct vm *vm)
{
	struct hub *hub = vm->hub;

	if (hub)
		return hub;
	hub = calloc(1, sizeof(*hub));
	if (!hub)
		return NULL;
	hub->vm = vm;
	LIST_INIT(&hub->processes);
	dialer_init(&hub->dialer, vm->ctx.loop);
	hub->dialer.start = on_start;
	hub->dialer.is_stale = is_stale;
	hub->dialer.closed = on_dialer_closed;
	vm->hub = hub;
	return hub;
}

struct dialer *hub_dialer(struct vm *vm)
{
	struct hub *hub = get(vm);

	return hub ? &hub->dialer : NULL;
}

uint32_t hub_new_owner(struct vm *vm)
{
	struct hub *hub = get(vm);

	if (hub && ++hub->last_owner == 0)
		hub->last_owner++;
	return hub ? hub->last_owner : 1;
}

const struct jail_report *hub_report(const struct vm *vm)
{
	return vm->hub && vm->hub->seen ? &vm->hub->report : NULL;
}

bool hub_close(struct vm *vm)
{
	if (!vm->hub)
		return true;
	kill_processes(vm->hub);
	dialer_close(&vm->hub->dialer);
	return !vm->hub;
}
