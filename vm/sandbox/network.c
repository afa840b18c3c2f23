/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's network: its list, its ports, its helper. */
#include <errno.h>
#include <fcntl.h>
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

#define CONTROL_FD 3
#define CARD_FD	   4

static void part_gone(struct network *n)
{
	struct sandbox *s = n->s;

	if (--n->nopen)
		return;
	free(n->allow);
	free(n);
	s->network = NULL;
	sandbox_part_closed(s);
}

/* ---- the helper ---- */

static void on_words(struct reader *r, const void *bytes, size_t len)
{
	tail_add(&((struct network *)r->data)->said, bytes, len);
}

static void on_reader_closed(struct reader *r)
{
	part_gone(r->data);
}

/* It does not come up, or has gone. */
static void lost(struct network *n, const char *how)
{
	struct sandbox *s = n->s;
	struct problem p;
	char quote[200];

	if (n->closing)
		return;
	problem_set(&p, n->served ? "network-lost" : "no-network",
		    n->served ? "Copy what you need out of files/, and make a new session."
			      : "See `doctor` for what this host lacks.",
		    "the process that filters the sandbox's network %s", how);
	if (n->words.open)
		reader_drain(&n->words);
	if (n->said.total)
		problem_add(&p, "; it said: %s", tail_quote(&n->said, NULL, quote, sizeof(quote)));
	n->lost = true;
	network_lose_ports(n);
	if (!n->served)
		sandbox_fail(s, &p);
	else if (s->events->network_lost && s->state != SANDBOX_CLOSING)
		s->events->network_lost(s->data, &p);
}

static void on_started(struct child *c)
{
	const struct network *n = c->data;

	n->s->vm->net_seen = true;
	n->s->vm->net_report = c->report;
}

static void on_failed(struct child *c, int err, const char *step)
{
	struct network *n = c->data;
	char how[JAIL_WHAT_MAX + 256];

	snprintf(how, sizeof(how), "was not started: %s: %s", step, strerror(-err));
	n->child_gone = true;
	lost(n, how);
	part_gone(n);
}

static void on_exited(struct child *c, int status)
{
	struct network *n = c->data;
	char how[64];

	if (WIFSIGNALED(status))
		snprintf(how, sizeof(how), "was killed by signal %d", WTERMSIG(status));
	else
		snprintf(how, sizeof(how), "ended with status %d", WEXITSTATUS(status));
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

	if (n->s->events->denied)
		n->s->events->denied(n->s->data, &denied);
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
	child_kill(&n->child);
	gateway_close(n->gateway, on_gateway_closed, n);
	n->gateway = NULL;
}

static const struct gateway_events gateway_events = {
	.ready = on_ready,
	.denied = on_denied,
	.stats = on_stats,
	.ended = on_gateway_ended,
};

static int start_child(struct network *n, int control, int words, int card, bool stream)
{
	const struct order order = {.program = ORDER_FILTER, .filter = {.stream = stream}};
	const int fds[] = {control, card, words};
	const struct spawn_spec s = {&order, sizeof(order), fds, ARRAY_SIZE(fds)};

	n->child.data = n;
	n->child.started = on_started;
	n->child.failed = on_failed;
	n->child.exited = on_exited;
	n->child.label = &n->s->label;
	return child_start(n->s->vm->ctx.spawner, &s, &n->child);
}

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
	_cleanup_close_ int ours = -1, theirs = -1, in = -1, out = -1;
	int sv[2], p[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return -errno;
	ours = sv[0];
	theirs = sv[1];
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	in = p[0];
	out = p[1];
	r = start_child(n, theirs, out, card, stream);
	if (r < 0)
		return r;
	n->nopen++;
	n->words.data = n;
	n->words.bytes = on_words;
	n->words.closed = on_reader_closed;
	if (reader_open(&n->words, n->s->vm->ctx.loop, steal_fd(&in)) == 0)
		n->nopen++;
	r = open_gateway(n, &ours);
	if (r < 0)
		child_kill(&n->child);
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
	problem_set(&p, "no-network", "See `doctor` for what this host lacks.",
		    "the sandbox's network can't be started: %s", strerror(-r));
	sandbox_fail(s, &p);
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

int network_new(struct sandbox *s, const struct sandbox_spec *spec)
{
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
	child_kill(&n->child);
	reader_close(&n->words);
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
	if (n->child.state == CHILD_RUNNING)
		jail_report_tell(&n->child.report, "network.", line, data);
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
	int r = vm_allow_check(text, len, ret_why);
	char *copy;

	if (r < 0)
		return r;
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
	r = n->gateway ? gateway_allow(n->gateway, text, len, ret_why) : 0;
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
