/* SPDX-License-Identifier: Apache-2.0 */
/* The process backend: the agent as first process of a jail on this host's own kernel. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "agent_process.h"
#include "vm/base/lent.h"
#include "vm/jail/jail.h"
#include "vm/order/order.h"
#include "vm/order/policy.h"
#include "process_jail.h"
#include "vm/base/log.h"
#include "vm/base/fdbag.h"
#include "vm/base/problem.h"
#include "vm/base/record.h"
#include "vm/jail/view.h"
#include "vm/image/layer.h"

/*
 * Theory of operation
 * -------------------
 * The same agent with the same protocol, over a socket pair instead of a machine's port, and with a
 * jail around it instead of a machine; what is in there: see process_jail.c. It shares the kernel
 * with the host: that is the difference to a microVM, and why the administrator has to allow it.
 * The agent is PID 1 of the PID namespace: when it ends, the kernel ends all that is left.
 *
 * A start takes little more than the interpreter does, so there are no snapshots; the pool has
 * sandboxes that were started as any other, and exercised. For who finds it empty a jail with an
 * agent is kept in reserve, see prefork.c.
 */

struct backend {
	struct agent_process agent;
	int stream; /* ours while it is in reserve, or -1 */
	int card;   /* where its network card comes from, until it is taken, or -1 */
};

/* All that makes two jails alike: the order, without a name, and what has the names in it: which version of
 * its image, and which directories of the host. */
struct recipe_bytes {
	struct order order;
	char tree[PATH_MAX];
	char shown[DIGEST_HEX];
};

/* ---- its life ---- */

static void on_gone(struct agent_process *h)
{
	struct backend *b = container_of(h, struct backend, agent);

	h->events->destroyed(h->data);
	lent_close(&b->card);
	free(b);
}

static void on_started(struct agent_process *h)
{
	h->all->jail_seen[VM_PROCESS] = true;
	h->all->jail[VM_PROCESS] = h->program.child.report;
}

/* What to do where no jail could be made. */
static const char *jail_fix(int error)
{
	switch (error) {
	case -ETIMEDOUT:
		return "What it lies on does not answer: a server, a disk. Mend that, or use "
		       "another "
		       "template.";
	case -EROFS: /* as containers have /proc/sys */
	case -EPERM:
		return "In a container, xsbxfs needs --cap-add SYS_ADMIN --security-opt "
		       "unmask=ALL, of "
		       "Docker systempaths=unconfined. Else see `doctor` for what this host lacks; "
		       "nothing "
		       "is run without a jail.";
	default: return "See `doctor` for what this host lacks; nothing is run without a jail.";
	}
}

static void explain_failed(const struct program *p, struct problem *ret)
{
	char fix[400];

	if (!p->child.no_card) {
		problem_set(ret, PROBLEM_NO_JAIL, jail_fix(p->failed),
			    "the sandbox did not start: %s: %s", p->step, strerror(-p->failed));
		return;
	}
	snprintf(fix, sizeof(fix),
		 "%s Sessions in virtual machines need no such file, installers of packages do.",
		 process_jail_tun_fix(p->failed));
	problem_set(ret, PROBLEM_NO_JAIL, fix, "the sandbox can't have a network: /dev/net/tun: %s",
		    strerror(-p->failed));
}

static void explain_end(const struct program *p, struct problem *ret)
{
	const struct child *c = &p->child;

	/* What earlier runs have died of says nothing about this. */
	if (p->failed)
		explain_failed(p, ret);
	else if (c->oom_kills > c->stats.oom_noted && WIFSIGNALED(p->status) &&
		 WTERMSIG(p->status) == SIGKILL)
		problem_set(ret, PROBLEM_OUT_OF_MEMORY, "Give the session more memory (memory_mb).",
			    "the sandbox's memory was full when its first process needed some");
	else if (WIFSIGNALED(p->status))
		problem_set(ret, PROBLEM_AGENT_KILLED,
			    "Reset the session; more memory may help (memory_mb).",
			    "the sandbox's first process was killed by signal %d",
			    WTERMSIG(p->status));
	else
		problem_set(ret, PROBLEM_AGENT_EXITED, "Reset the session.",
			    "the sandbox's first process ended with status %d",
			    WEXITSTATUS(p->status));
}

/* The sockets on which the jail's card will come. Return: 0 or -errno. */
static int open_card(struct backend *b, int *ret_theirs)
{
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return -errno;
	b->card = sv[0];
	*ret_theirs = sv[1];
	return 0;
}

static void init(struct backend *b, struct backends *all, const struct backend_events *events,
		 void *data)
{
	b->agent = (struct agent_process){.all = all,
					  .events = events,
					  .data = data,
					  .started = on_started,
					  .explain = explain_end,
					  .gone = on_gone};
	b->stream = b->card = -1;
}

/* Return: 0 or -errno. */
static int make(struct backends *all, const struct order *order, const struct log_label *label,
		const struct backend_events *events, void *data, struct backend **ret_backend,
		int *ret_stream)
{
	struct backend *b = calloc(1, sizeof(*b));
	_cleanup_close_ int card = -1;
	int r = 0;

	if (!b)
		return -ENOMEM;
	init(b, all, events, data);
	if (order->sandbox.flags & ORDER_NETWORK)
		r = open_card(b, &card);
	if (r == 0)
		r = agent_process_start(&b->agent, order, label, card, ret_stream);
	if (r == 0) {
		*ret_backend = b;
		return 0;
	}
	lent_close(&b->card);
	free(b);
	return r;
}

/* Return: 0 or -errno. If not *ret_known, two that are described alike may still see different things. */
static int describe(const struct backends *all, const struct backend_spec *spec,
		    struct recipe_bytes *d, bool *ret_known)
{
	const struct sandbox_spec *v = spec->view;
	const struct vm_install *in = v ? v->install : NULL;
	struct order_sandbox *o = &d->order.sandbox;
	int view = in ? (in->pack ? ORDER_VIEW_PACK : ORDER_VIEW_INSTALL)
		      : policy_find_view(all->policy, v);
	const char *why;

	memset(d, 0, sizeof(*d)); /* no holes, where bytes are compared */
	if (view < 0)
		return view;
	if (v && v->image_view && images_tree(all->images, spec->image, d->tree, &why) < 0)
		return -ENOENT;
	*ret_known = view_stamp(v, d->shown) == 0;
	d->order.program = ORDER_SANDBOX;
	order_set(o->name, "sandbox");
	if (spec->layer)
		order_set(o->layer, spec->layer->key);
	if (in) {
		order_set(o->key, in->key);
		order_set(o->image, in->image);
		o->language = strcmp(in->language, "python") == 0 ? ORDER_PYTHON : ORDER_JAVASCRIPT;
	} else if (v && v->image_view) {
		order_set(o->image, spec->image);
	}
	o->view = (uint32_t)view;
	o->flags = spec->network ? ORDER_NETWORK : 0;
	o->memory_mb = spec->memory_mb;
	o->cpus = spec->cpus;
	o->processes = spec->processes;
	if (v) {
		o->owner = v->owner;
		o->group = v->group;
	}
	return 0;
}

static void explain(struct backends *all, const struct backend_spec *spec, int err,
		    struct problem *p)
{
	const char *why = strerror(-err);
	char path[PATH_MAX];

	if (spec->view && spec->view->image_view)
		(void)images_tree(all->images, spec->image, path, &why);
	problem_set(p, PROBLEM_NO_JAIL, "", "the sandbox can't be started: %s", why);
}

static int process_start(struct backends *all, const struct backend_spec *spec,
			 const struct backend_events *events, void *data,
			 struct backend **ret_backend, int *ret_stream, struct problem *ret_problem)
{
	/* An installer's directory is made anew each time, so nobody could use what was kept for the next. */
	const bool reserve = !spec->background && !(spec->view && spec->view->install);
	struct recipe_bytes d;
	struct backend *b = NULL;
	bool known = false;
	int r = describe(all, spec, &d, &known);

	if (r == 0 && reserve && known)
		b = prefork_take(&all->prefork, &d, sizeof(d), events, data);
	if (b) {
		b->agent.program.child.label = spec->label;
		log_trace(spec->label, "backend", "a jail in reserve is taken, process %d",
			  (int)b->agent.program.child.pid);
		*ret_stream = steal_fd(&b->stream);
		*ret_backend = b;
		return 1;
	}
	if (r == 0) {
		order_set(d.order.sandbox.name, spec->name);
		r = make(all, &d.order, spec->label, events, data, ret_backend, ret_stream);
	}
	if (r < 0)
		explain(all, spec, r, ret_problem);
	return MIN(r, 0);
}

static void process_destroy(struct backend *b)
{
	if (b->stream >= 0)
		close(b->stream);
	b->stream = -1;
	agent_process_destroy(&b->agent);
}

static void process_info(struct backend *b, struct backend_info *ret_info)
{
	const pid_t pid = agent_process_pid(&b->agent);

	*ret_info = (struct backend_info){.accel = "none",
					  .kept = pid ? b->agent.program.child.kept : -1,
					  .pid = pid,
					  .report = pid ? &b->agent.program.child.report : NULL,
					  .stats = pid ? &b->agent.program.child.stats : NULL,
					  .used_us = b->agent.program.child.used_us};
}

static int process_take_card(struct backend *b, bool *ret_stream)
{
	*ret_stream = false;
	return b->card < 0 ? -EBUSY : steal_fd(&b->card);
}

/* ---- from one daemon to the next ---- */

/* Never reuse one. */
enum { TAG_AGENT = 1, TAG_CARD };

static void process_put(const struct backend *b, struct buf *out, struct fdbag *fds)
{
	const size_t at = record_open(out, TAG_AGENT);

	agent_process_put(&b->agent, out, fds);
	record_close(out, at);
	record_u64(out, TAG_CARD, fdbag_put(fds, b->card));
}

static int process_take(struct backends *all, const struct record_reader *fields, struct fdbag *fds,
			const struct backend_spec *spec, const struct backend_events *events,
			void *data, struct backend **ret_backend)
{
	struct record_reader r = *fields, agent = {0};
	struct backend *b = calloc(1, sizeof(*b));
	struct record_field f;
	uint32_t card = 0;
	int n;

	if (!b)
		return -ENOMEM;
	while ((n = record_field(&r, &f)) > 0) {
		if (f.tag == TAG_AGENT && f.is_bytes)
			agent = record_inside(&f);
		else if (f.tag == TAG_CARD)
			n = record_get_u32(&f, FDBAG_MAX, &card);
		if (n < 0)
			break;
	}
	init(b, all, events, data);
	if (n == 0)
		n = agent_process_take(&b->agent, &agent, fds, spec->label);
	if (n < 0) {
		free(b);
		return n;
	}
	b->card = fdbag_take(fds, card);
	all->jail_seen[VM_PROCESS] = true;
	all->jail[VM_PROCESS] = b->agent.program.child.report;
	*ret_backend = b;
	return 0;
}

/* ---- in reserve ---- */

static struct backend *prefork_make(struct backends *all, const void *bytes, size_t len,
				    const struct backend_events *events, void *data)
{
	const struct recipe_bytes *d = bytes;
	struct backend *b = NULL;
	int stream = -1;

	(void)len;
	if (make(all, &d->order, NULL, events, data, &b, &stream) == 0)
		b->stream = stream;
	return b;
}

static bool prefork_alive(const struct backend *b)
{
	struct pollfd p = {.fd = b->agent.program.child.pidfd, .events = POLLIN};

	return agent_process_pid(&b->agent) && poll(&p, 1, 0) == 0;
}

static void prefork_give(struct backend *b, const struct backend_events *events, void *data)
{
	b->agent.events = events;
	b->agent.data = data;
}

const struct prefork_ops process_prefork_ops = {
	.make = prefork_make,
	.alive = prefork_alive,
	.give = prefork_give,
	.destroy = process_destroy,
};

const struct backend_ops backend_process = {
	.name = "process",
	.views = true,
	.pools = true,
	.overhead_mb = PROCESS_JAIL_OVERHEAD_MB,
	.start = process_start,
	.destroy = process_destroy,
	.info = process_info,
	.take_card = process_take_card,
	.put = process_put,
	.take = process_take,
};
