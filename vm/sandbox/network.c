/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's network: its allow list and its filter process. Its ports are in network_ports.c. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "vm/backend/backend.h"
#include "vm/base/lent.h"
#include "vm/net/dialer_process.h"
#include "vm/base/allow.h"
#include "vm/base/net_reason.h"
#include "network_internal.h"
#include "vm/order/order.h"
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
 * A second helper on the same card would begin in the middle of frames and connections. So the card is kept here until the
 * first has said that it is ready, and is told to begin: until then another may take its place, if this process ends.
 */

static void close_card(struct network *n)
{
	lent_close(&n->card);
}

static void part_gone(struct network *n)
{
	const struct network_ops *ops = n->ops;
	struct sandbox *s = n->s;

	if (--n->nopen)
		return;
	close_card(n);
	network_free_policy(n);
	free(n->sources_for);
	free(n);
	s->network = NULL;
	ops->closed(s);
}

/* ---- the helper ---- */

/* The helper did not start, or has ended. */
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
	close_card(n);
	network_lose_ports(n);
	if (!n->served)
		n->ops->fail(s, &p);
	else if (s->state != SANDBOX_CLOSING)
		tell_owner(s, network_lost, &p);
}

/* The filter has said that it is ready, and the spawner that it runs: it can be handed over from now on, and has the card. If it
 * can't be told so, it has ended, which its process tells. */
static void begin(struct network *n)
{
	if (!n->served || n->filter.child.state != CHILD_RUNNING || n->card < 0 || !n->gateway)
		return;
	close_card(n);
	sandbox_touch(n->s);
	(void)gateway_go(n->gateway);
}

static void on_started(struct program *p)
{
	struct network *n = p->data;

	n->s->vm->net_seen = true;
	n->s->vm->net_report = p->child.report;
	begin(n);
}

static void on_over(struct program *p)
{
	struct network *n = p->data;
	char how[sizeof(p->step) + 64];

	if (p->failed)
		snprintf(how, sizeof(how), "was not started: %s: %s", p->step,
			 strerror(-p->failed));
	else if (n->broken)
		snprintf(how, sizeof(how), "was killed, for what it said cannot be so: %s",
			 strerror(-n->broken));
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
	struct network *n = data;

	n->served = true;
	begin(n);
}

static void on_touched(void *data)
{
	const struct network *n = data;

	sandbox_touch(n->s);
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
		.spent = what->reason == NET_BUDGET,
	};

	tell_owner(n->s, denied, &denied);
}

static void on_connected(void *data, const char *name, uint16_t port)
{
	const struct network *n = data;

	tell_owner(n->s, connected, name, port);
}

static void on_stats(void *data, const struct net_stats *stats)
{
	struct network *n = data;

	sandbox_touch(n->s);
	n->has_traffic = true;
	n->traffic = (struct sandbox_traffic){.bytes_in = stats->bytes_in,
					      .bytes_out = stats->bytes_out,
					      .connections = stats->connections,
					      .requests = stats->header.id,
					      .open = (unsigned)stats->open};
}

static void on_called(void *data)
{
	const struct network *n = data;

	if (n->s->guest)
		guest_stir(n->s->guest);
}

static void on_gateway_closed(void *data)
{
	part_gone(data);
}

/* The helper has violated the protocol, or has ended; then the end of its process says more. */
static void on_gateway_ended(void *data, int err)
{
	struct network *n = data;

	if (err != -EPIPE && err != -ECONNRESET)
		n->broken = err;
	child_kill(&n->filter.child);
	gateway_close(n->gateway, on_gateway_closed, n);
	n->gateway = NULL;
	sandbox_touch(n->s);
}

void network_gateway_config(struct network *n, struct gateway_config *ret_cfg)
{
	static struct gateway_events gateway_events = {
		.ready = on_ready,
		.denied = on_denied,
		.connected = on_connected,
		.stats = on_stats,
		.called = on_called,
		.touched = on_touched,
		.ended = on_gateway_ended,
	};

	network_policy_events(&gateway_events);
	*ret_cfg = (struct gateway_config){
		.events = &gateway_events,
		.data = n,
		.dialer = dialer_process_get(&n->s->vm->dialer_process),
		.owner = n->owner,
		.user = n->user,
		.trusted_names = n->trusted_names,
		.host_ports = n->s->vm->host_ports,
		.turn = &n->s->vm->ctx.turn,
	};
}

/* Messages may be sent before the helper runs: they wait in the socket. */
static int open_gateway(struct network *n, int *control)
{
	struct gateway_config cfg;
	int r;

	network_gateway_config(n, &cfg);
	r = gateway_new(n->s->vm->ctx.loop, *control, &cfg, &n->gateway);

	if (r < 0)
		return r;
	*control = -1;
	n->nopen++;
	r = network_send_policy(n);
	return r < 0 ? r : network_hand_over_ports(n);
}

void network_prepare(struct network *n)
{
	n->filter = (struct program){.label = &n->s->label,
				     .lines = &n->said,
				     .started = on_started,
				     .over = on_over,
				     .data = n};
}

int network_start_filter(struct network *n)
{
	const struct order order = {.program = ORDER_FILTER,
				    .filter = {.stream = n->card_is_stream}};
	struct context *ctx = &n->s->vm->ctx;
	int sv[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return -errno;

	_cleanup_close_ int ours = sv[0], theirs = sv[1];
	const int fds[] = {theirs, n->card};

	network_prepare(n);
	n->trust_sent = n->vouched = false; /* of another one, before this daemon */
	n->filter.fds = fds;
	n->filter.nfds = ARRAY_SIZE(fds);
	n->filter.near = &ours;
	n->filter.nnear = 1;
	r = program_start(&n->filter, ctx->loop, ctx->spawner, &order, sizeof(order));
	n->filter.fds = n->filter.near = NULL;
	if (r < 0)
		return r;
	n->nopen++;
	r = open_gateway(n, &ours);
	if (r < 0)
		child_kill(&n->filter.child);
	return r;
}

int network_resync(struct network *n)
{
	uint16_t ports[SANDBOX_PORTS_MAX];
	unsigned nports = 0;
	int r;

	for (size_t i = 0; i < SANDBOX_PORTS_MAX; i++)
		if (n->ports[i].state == PORT_BOUND)
			ports[nports++] = n->ports[i].guest;
	r = gateway_resync(n->gateway, ports, nports);
	if (r == 0)
		r = network_send_policy(n);
	return r < 0 ? r : network_hand_over_ports(n);
}

void network_not_started(struct network *n, int err)
{
	struct problem p;

	problem_set(&p, PROBLEM_NO_NETWORK, "See `doctor` for what this host lacks.",
		    "the sandbox's network can't be started: %s", strerror(-err));
	n->ops->fail(n->s, &p);
}

void network_start(struct sandbox *s)
{
	struct network *n = s->network;
	int r;

	if (!n || n->started)
		return;
	n->started = true;
	n->card = guest_take_card(s->guest, &n->card_is_stream);
	r = n->card < 0 ? n->card : network_start_filter(n);
	if (r < 0)
		network_not_started(n, r);
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

int network_make(struct sandbox *s, const struct network_ops *ops)
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
	if (!n)
		return -ENOMEM;
	r = network_copy_policy(n, spec->allow, &spec->policy);
	if (r < 0) {
		free(n);
		return r;
	}
	n->s = s;
	n->card = -1;
	n->ops = ops;
	n->trusted_names = spec->trusted_names;
	n->owner = dialer_process_new_owner(&s->vm->dialer_process);
	n->user = spec->owner;
	n->nopen = 1;
	n->part_gone = part_gone;
	network_secrets_init(n);
	s->network = n;
	s->nopen++;
	return 0;
}

int network_new(struct sandbox *s, const struct network_ops *ops)
{
	const int r = network_make(s, ops);

	if (s->network)
		network_bind_ports(s->network, s->spec.ports, s->spec.nports);
	return r;
}

void network_close(struct sandbox *s)
{
	struct network *n = s->network;

	if (!n || n->closing)
		return;
	n->closing = true;
	network_end_ports(n);
	network_secrets_close(n);
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
	line(data, "network.requests",
	     "looked into where rules or secrets are for them, and nowhere else; the key of the "
	     "authority that the sandbox trusts for that is in its filter's memory alone");
	line(data, "network.secrets",
	     "fetched by a process of xsbxfs-spawner's into the filters of sessions that use them; "
	     "neither the daemon nor a sandbox has any");
	if (!dial)
		return;
	line(data, "dial",
	     "one process connects for all sessions, in a jail with the host's "
	     "network; as seen at its start:");
	jail_report_tell(dial, "dial.", line, data);
}

/* ---- the seam ---- */

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
