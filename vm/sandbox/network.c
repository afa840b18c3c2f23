/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's network: its allow list, its ports, its filter process. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "vm/backend/backend.h"
#include "vm/net/gateway.h"
#include "vm/net/dialer_process.h"
#include "internal.h"
#include "vm/base/allow.h"
#include "vm/base/net_reason.h"
#include "network_internal.h"
#include "vm/spawn/order.h"
#include "vm/base/problem.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * Whether a sandbox has a network card is a property of its machine, of the snapshot it is cloned from
 * and of the pool it comes out of; where the card leads to is not. The other end of the card waits in
 * the backend until somebody uses the sandbox and it is up; then xsbxfs-net is started with it and
 * with what this user allows. What the guest sends meanwhile waits in the socket.
 *
 * A helper that does not come up ends the sandbox, which was promised a network. One that ends later
 * (a guest has broken it, or memory was short) takes the network down for good: the machine's card
 * has lost its cable, which user code notices at once, and the sandbox lives on with what it has.
 * A second helper on the same card would begin in the middle of frames and connections.
 */

static void part_gone(struct network *n)
{
	const struct network_ops *ops = n->ops;
	struct sandbox *s = n->s;

	if (--n->nopen)
		return;
	free(n->allow);
	free(n);
	s->network = NULL;
	ops->closed(s);
}

/* ---- the helper ---- */

/* It does not come up, or has gone. */
static void lost(struct network *n, const char *how)
{
	struct sandbox *s = n->s;
	struct problem p;
	char quote[200];

	if (n->closing)
		return;
	problem_set(&p, n->served ? PROBLEM_NETWORK_LOST : PROBLEM_NO_NETWORK,
		    n->served ? "Copy what you need out of files/, and make a new session."
			      : "See `doctor` for what this host lacks.",
		    "the process that filters the sandbox's network %s", how);
	if (n->said.said.total)
		problem_add(&p, "; it said: %s",
			    tail_quote(&n->said.said, NULL, quote, sizeof(quote)));
	n->lost = true;
	network_lose_ports(n);
	if (!n->served)
		n->ops->fail(s, &p);
	else if (s->state != SANDBOX_CLOSING)
		tell_owner(s, network_lost, &p);
}

static void on_started(struct program *p)
{
	const struct network *n = p->data;

	n->s->vm->net_seen = true;
	n->s->vm->net_report = p->child.report;
}

static void on_over(struct program *p)
{
	struct network *n = p->data;
	char how[sizeof(p->step) + 64];

	if (p->failed)
		snprintf(how, sizeof(how), "was not started: %s: %s", p->step,
			 strerror(-p->failed));
	else if (WIFSIGNALED(p->status))
		snprintf(how, sizeof(how), "was killed by signal %d", WTERMSIG(p->status));
	else
		snprintf(how, sizeof(how), "ended with status %d", WEXITSTATUS(p->status));
	n->child_gone = true;
	lost(n, how);
	part_gone(n);
}

static void on_ready(void *data)
{
	((struct network *)data)->served = true;
}

static void on_denied(void *data, const struct net_denied *what)
{
	const struct network *n = data;
	const struct sandbox_denied denied = {
		.time_ms = what->time_ms,
		.lost = what->lost,
		.port = what->port,
		.name = what->name,
		.reason = net_reason_str(what->reason),
	};

	tell_owner(n->s, denied, &denied);
}

static void on_stats(void *data, const struct net_stats *stats)
{
	struct network *n = data;

	n->has_traffic = true;
	n->traffic = (struct sandbox_traffic){.bytes_in = stats->bytes_in,
					      .bytes_out = stats->bytes_out,
					      .connections = stats->connections,
					      .open = stats->open};
}

static void on_gateway_closed(void *data)
{
	part_gone(data);
}

/* It spoke nonsense, or its process ends, which says more. */
static void on_gateway_ended(void *data, int err)
{
	struct network *n = data;

	(void)err;
	child_kill(&n->filter.child);
	gateway_close(n->gateway, on_gateway_closed, n);
	n->gateway = NULL;
}

static const struct gateway_events gateway_events = {
	.ready = on_ready,
	.denied = on_denied,
	.stats = on_stats,
	.ended = on_gateway_ended,
};

/* The conversation begins before the other end is there: it waits in the socket. */
static int open_gateway(struct network *n, int *control)
{
	const struct gateway_config cfg = {
		.events = &gateway_events,
		.data = n,
		.dialer = dialer_process_get(&n->s->vm->dialer_process),
		.owner = n->owner,
		.user = n->user,
		.trusted_names = n->trusted_names,
		.host_ports = n->s->vm->host_ports,
	};
	char why[GATEWAY_WHY_MAX];
	int r = gateway_new(n->s->vm->ctx.loop, *control, &cfg, &n->gateway);

	if (r < 0)
		return r;
	*control = -1;
	n->nopen++;
	r = gateway_allow(n->gateway, n->allow, strlen(n->allow), why);
	return r < 0 ? r : network_hand_over_ports(n);
}

static int start(struct network *n, int card, bool stream)
{
	const struct order order = {.program = ORDER_FILTER, .filter = {.stream = stream}};
	struct context *ctx = &n->s->vm->ctx;
	int sv[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return -errno;

	_cleanup_close_ int ours = sv[0], theirs = sv[1];
	const int fds[] = {theirs, card};

	n->filter = (struct program){.label = &n->s->label,
				     .fds = fds,
				     .nfds = ARRAY_SIZE(fds),
				     .lines = &n->said,
				     .started = on_started,
				     .over = on_over,
				     .data = n};
	r = program_start(&n->filter, ctx->loop, ctx->spawner, &order, sizeof(order));
	n->filter.fds = NULL;
	if (r < 0)
		return r;
	n->nopen++;
	r = open_gateway(n, &ours);
	if (r < 0)
		child_kill(&n->filter.child);
	return r;
}

void network_start(struct sandbox *s)
{
	struct network *n = s->network;
	_cleanup_close_ int card = -1;
	bool stream = false;
	struct problem p;
	int r;

	if (!n || n->started)
		return;
	n->started = true;
	card = guest_take_card(s->guest, &stream);
	r = card < 0 ? card : start(n, card, stream);
	if (r >= 0)
		return;
	problem_set(&p, PROBLEM_NO_NETWORK, "See `doctor` for what this host lacks.",
		    "the sandbox's network can't be started: %s", strerror(-r));
	n->ops->fail(s, &p);
}

/* ---- beginning and end ---- */

static int check_spec(const struct sandbox_spec *spec)
{
	char why[VM_WHY_MAX];

	if (spec->nports > SANDBOX_PORTS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < spec->nports; i++)
		for (size_t k = 0; k <= i; k++)
			if (!spec->ports[i].guest ||
			    (k < i && spec->ports[i].guest == spec->ports[k].guest))
				return -EINVAL;
	return spec->allow ? vm_allow_check(spec->allow, strlen(spec->allow), why) : 0;
}

int network_new(struct sandbox *s, const struct network_ops *ops)
{
	const struct sandbox_spec *spec = &s->spec;
	struct network *n;
	int r;

	if (!spec->network || !s->ops->take_card)
		return 0;
	r = check_spec(spec);
	if (r < 0)
		return r;
	n = calloc(1, sizeof(*n));
	if (n)
		n->allow = strdup(spec->allow ? spec->allow : "");
	if (!n || !n->allow) {
		free(n);
		return -ENOMEM;
	}
	n->s = s;
	n->ops = ops;
	n->trusted_names = spec->trusted_names;
	n->owner = dialer_process_new_owner(&s->vm->dialer_process);
	n->user = spec->owner;
	n->nopen = 1;
	s->network = n;
	s->nopen++;
	network_bind(n, spec->ports, spec->nports);
	return 0;
}

void network_close(struct sandbox *s)
{
	struct network *n = s->network;

	if (!n || n->closing)
		return;
	n->closing = true;
	network_end_ports(n);
	if (n->gateway)
		gateway_close(steal_ptr(n->gateway), on_gateway_closed, n);
	child_kill(&n->filter.child);
	part_gone(n);
}

/* ---- `isolation` ---- */

void network_tell(const struct sandbox *s,
		  void (*line)(void *data, const char *key, const char *value), void *data)
{
	const struct network *n = s->network;

	if (!n)
		return;
	line(data, "network",
	     !n->started || !n->child_gone
		     ? "filtered: what `net/allow` names, by name, and the ports in `ports`"
		     : "none any more: its filter has ended");
	if (n->filter.child.state == CHILD_RUNNING)
		jail_report_tell(&n->filter.child.report, "network.", line, data);
}

void network_tell_all(const struct vm *vm,
		      void (*line)(void *data, const char *key, const char *value), void *data)
{
	const struct jail_report *dial = dialer_process_report(&vm->dialer_process);

	line(data, "network",
	     vm->net_seen
		     ? "off unless asked for; then a filter of its own per session, in a "
		       "jail; as seen at the last start:"
		     : "off unless asked for; then a filter of its own per session, in a jail");
	if (vm->net_seen)
		jail_report_tell(&vm->net_report, "network.", line, data);
	if (!dial)
		return;
	line(data, "dial",
	     "one process connects for all sessions, in a jail with the host's "
	     "network; as seen at its start:");
	jail_report_tell(dial, "dial.", line, data);
}

/* ---- the seam ---- */

int sandbox_allow(struct sandbox *s, const char *text, size_t len, char ret_why[static VM_WHY_MAX])
{
	struct network *n = s->network;
	char *copy;
	int r;

	if (!n || n->closing) {
		snprintf(ret_why, VM_WHY_MAX, "the sandbox has no network");
		return -EOPNOTSUPP;
	}
	if (n->lost) {
		snprintf(ret_why, VM_WHY_MAX, LOST);
		return -ENETDOWN;
	}
	copy = strndup(text, len);
	if (!copy)
		return -ENOMEM;
	r = n->gateway ? gateway_allow(n->gateway, text, len, ret_why)
		       : vm_allow_check(text, len, ret_why);
	if (r < 0) {
		free(copy);
		return r;
	}
	free(n->allow);
	n->allow = copy;
	return 0;
}

void network_ask_traffic(struct sandbox *s)
{
	const struct network *n = s->network;

	if (n && n->gateway && n->served)
		(void)gateway_ask_stats(n->gateway);
}

int sandbox_traffic(const struct sandbox *s, struct sandbox_traffic *ret_traffic)
{
	if (!s->network || !s->network->has_traffic)
		return -ENODATA;
	*ret_traffic = s->network->traffic;
	return 0;
}
