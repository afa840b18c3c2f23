/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's network: its list, its ports, its helper. */
#include "network.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "backend.h"
#include "dialer.h"
#include "gateway.h"
#include "hub.h"
#include "net/allow.h"
#include "net/reason.h"
#include "net_jail.h"
#include "reader.h"
#include "sandbox_internal.h"
#include "spawn.h"
#include "trouble.h"
#include "util.h"
#include "vm_internal.h"

/*
 * Theory of operation
 * -------------------
 * Whether a sandbox has a network card is a property of its machine, of the snapshot it is cloned from
 * and of the pool it comes out of; where the card leads to is not. The other end of the card waits in
 * the backend until somebody uses the sandbox and it is up; then xsbxfs-net is started with it and
 * with what this user allows. What the guest sends meanwhile waits in the socket.
 *
 * Ports are bound as soon as the sandbox is asked for, and before it is said to be READY, so that one
 * that is taken is known before anything has run. The listening sockets are kept here as well, to be
 * given up all at once at the end.
 *
 * A helper that does not come up ends the sandbox, which was promised a network. One that ends later
 * (a guest has broken it, or memory was short) takes the network down for good: the machine's card
 * has lost its cable, which user code notices at once, and the sandbox lives on with what it has.
 * A second helper on the same card would begin in the middle of frames and connections.
 */

#define CONTROL_FD 3
#define CARD_FD	   4

enum port_state { PORT_FREE, PORT_BINDING, PORT_BOUND };

struct port {
	struct network *network;
	enum port_state state;
	uint16_t guest, host;
	int listener;
	struct dialer_request request;
	sandbox_forward_fn fn; /* or NULL: the spec's, without which there is no sandbox */
	void *data;
};

struct network {
	struct sandbox *s;
	char *allow;
	bool trusted_names;
	struct port ports[SANDBOX_PORTS_MAX];
	uint32_t owner; /* for the dialer */

	struct gateway *gateway; /* from network_start() until its helper has ended */
	struct child child;
	struct reader words;
	struct tail said;
	bool started, served, child_gone, closing;
	unsigned nopen; /* the child, the reader, the gateway, and one until network_close() */
};

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

/* ---- ports ---- */

/* The words for one that is not to be had. */
static void explain_port(const struct port *p, int err, char *out, size_t size)
{
	const struct sandbox *other;

	TAILQ_FOREACH(other, &p->network->s->vm->sandboxes, link) {
		for (size_t i = 0; other->network && err == -EADDRINUSE && i < SANDBOX_PORTS_MAX;
		     i++)
			if (other->network->ports[i].state == PORT_BOUND &&
			    other->network->ports[i].host == p->host) {
				snprintf(out, size, "port %u of this machine: sandbox %.64s has it",
					 p->host, other->name);
				return;
			}
	}
	snprintf(out, size, "port %u of this machine: %s", p->host,
		 err == -EADDRINUSE ? "somebody uses it"
		 : err == -EACCES   ? "ports below 1024 are not for sandboxes"
				    : strerror(-err));
}

static void tell_ports(struct network *n)
{
	if (n->s->events->ports)
		n->s->events->ports(n->s->data);
}

static void port_taken(struct port *p, int err)
{
	struct vm_problem problem;
	char why[VM_WHY_MAX];

	explain_port(p, err, why, sizeof(why));
	trouble_set(&problem, "port-taken",
		    "Give another one in `ports`, or none, and a free one is chosen.",
		    "port %u of the sandbox can't be forwarded: %s", p->guest, why);
	sandbox_fail(p->network->s, &problem);
}

/* The answer to who asked for it, or the end of the sandbox. */
static void port_failed(struct port *p, int err)
{
	const sandbox_forward_fn fn = p->fn;
	char why[VM_WHY_MAX];

	p->state = PORT_FREE;
	if (!fn) {
		port_taken(p, err);
		return;
	}
	explain_port(p, err, why, sizeof(why));
	fn(p->data, err, NULL, why);
}

static void on_bound(struct dialer_request *rq, int result, uint16_t host, int *fd)
{
	struct port *p = container_of(rq, struct port, request);
	struct network *n = p->network;
	const struct sandbox_port port = {p->guest, host};

	if (result == 0 && n->gateway)
		result = gateway_forward(n->gateway, p->guest, *fd);
	if (result < 0) {
		port_failed(p, result);
		return;
	}
	p->listener = steal_fd(fd);
	p->host = host;
	p->state = PORT_BOUND;
	if (p->fn)
		p->fn(p->data, 0, &port, NULL);
	tell_ports(n);
	vm_defer(n->s->vm, n->s);
}

/* Return: 0 or -errno. */
static int bind_port(struct network *n, const struct sandbox_port *port, sandbox_forward_fn fn,
		     void *data)
{
	struct dialer *dialer = hub_dialer(n->s->vm);
	struct port *p = n->ports;
	int r = dialer ? 0 : -ENOMEM;

	while (p->state != PORT_FREE)
		p++;
	*p = (struct port){.network = n,
			   .guest = port->guest,
			   .host = port->host,
			   .listener = -1,
			   .fn = fn,
			   .data = data};
	p->request.done = on_bound;
	if (r == 0)
		r = dialer_listen(dialer, &p->request, port->host);
	if (r == 0)
		p->state = PORT_BINDING;
	return r;
}

static struct port *find_port(struct network *n, uint16_t guest)
{
	for (size_t i = 0; i < SANDBOX_PORTS_MAX; i++)
		if (n->ports[i].state != PORT_FREE && n->ports[i].guest == guest)
			return &n->ports[i];
	return NULL;
}

static void end_port(struct port *p)
{
	const bool told = p->state != PORT_BINDING || !p->fn;

	dialer_cancel(&p->request);
	if (p->state == PORT_BOUND)
		close(p->listener);
	p->state = PORT_FREE;
	if (!told)
		p->fn(p->data, -ESTALE, NULL, "the sandbox has ended");
}

bool network_is_ready(const struct sandbox *s)
{
	for (size_t i = 0; s->network && i < SANDBOX_PORTS_MAX; i++)
		if (s->network->ports[i].state == PORT_BINDING && !s->network->ports[i].fn)
			return false;
	return true;
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
	struct vm_problem p;
	char quote[200];

	if (n->closing)
		return;
	trouble_set(&p, n->served ? "network-lost" : "no-network",
		    n->served ? "Copy what you need out of files/, and make a new session."
			      : "See `doctor` for what this host lacks.",
		    "the process that filters the sandbox's network %s", how);
	if (n->words.open)
		reader_drain(&n->words);
	if (n->said.total)
		trouble_add(&p, "; it said: %s", tail_quote(&n->said, NULL, quote, sizeof(quote)));
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
	(void)data;
	(void)stats;
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
	const char *const argv[] = {
		NET_JAIL_PROGRAM, "--control", "3", stream ? "--stream" : "--receive", "4",
		"--confined",	  NULL};
	static const char *const envp[] = {"LC_ALL=C", NULL};
	const struct spawn_fd fds[] = {
		{control, CONTROL_FD}, {card, CARD_FD}, {words, STDERR_FILENO}};
	struct net_jail *jail = malloc(sizeof(*jail));
	int r = jail ? net_jail(n->s->vm->agent, NET_PROGRAM_NET, jail) : -ENOMEM;

	if (r == 0) {
		const struct spawn_spec s = {
			argv, envp, fds, ARRAY_SIZE(fds), SPAWN_OOM_FIRST, &jail->spec};

		n->child.data = n;
		n->child.started = on_started;
		n->child.failed = on_failed;
		n->child.exited = on_exited;
		r = child_start(n->s->vm->spawner, &s, &n->child);
	}
	free(jail);
	return r;
}

/* The conversation begins before the other end is there: it waits in the socket. */
static int open_gateway(struct network *n, int *control)
{
	const struct gateway_config cfg = {
		.events = &gateway_events,
		.data = n,
		.dialer = hub_dialer(n->s->vm),
		.owner = n->owner,
		.trusted_names = n->trusted_names,
	};
	char why[GATEWAY_WHY_MAX];
	int r = cfg.dialer ? gateway_new(n->s->vm->loop, *control, &cfg, &n->gateway) : -ENOMEM;

	if (r < 0)
		return r;
	*control = -1;
	n->nopen++;
	r = gateway_allow(n->gateway, n->allow, strlen(n->allow), why);
	for (size_t i = 0; r == 0 && i < SANDBOX_PORTS_MAX; i++)
		if (n->ports[i].state == PORT_BOUND)
			r = gateway_forward(n->gateway, n->ports[i].guest, n->ports[i].listener);
	return r;
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
	if (reader_open(&n->words, n->s->vm->loop, steal_fd(&in)) == 0)
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
	struct vm_problem p;
	int r;

	if (!n || n->started || !s->ops->take_card)
		return;
	n->started = true;
	card = s->ops->take_card(s->backend, &stream);
	r = card < 0 ? card : start(n, card, stream);
	if (r >= 0)
		return;
	trouble_set(&p, "no-network", "See `doctor` for what this host lacks.",
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
	n->owner = hub_new_owner(s->vm);
	n->nopen = 1;
	s->network = n;
	s->nopen++;
	for (size_t i = 0; i < spec->nports; i++) {
		r = bind_port(n, &spec->ports[i], NULL, NULL);
		if (r < 0)
			port_taken(&n->ports[i], r);
	}
	return 0;
}

void network_close(struct sandbox *s)
{
	struct network *n = s->network;

	if (!n || n->closing)
		return;
	n->closing = true;
	for (size_t i = 0; i < SANDBOX_PORTS_MAX; i++)
		if (n->ports[i].state != PORT_FREE)
			end_port(&n->ports[i]);
	if (n->gateway)
		gateway_close(steal_ptr(n->gateway), on_gateway_closed, n);
	child_kill(&n->child);
	reader_close(&n->words);
	part_gone(n);
}

const struct jail_report *network_report(const struct sandbox *s)
{
	const struct network *n = s->network;

	return n && n->child.state == CHILD_RUNNING ? &n->child.report : NULL;
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

void sandbox_ports(const struct sandbox *s, void (*fn)(void *data, const struct sandbox_port *port),
		   void *data)
{
	for (size_t i = 0; s->network && i < SANDBOX_PORTS_MAX; i++) {
		const struct port *p = &s->network->ports[i];
		const struct sandbox_port port = {p->guest, p->host};

		if (p->state == PORT_BOUND)
			fn(data, &port);
	}
}

int sandbox_forward(struct sandbox *s, uint16_t guest, uint16_t host, sandbox_forward_fn fn,
		    void *data, char ret_why[static VM_WHY_MAX])
{
	const struct sandbox_port port = {guest, host};
	struct network *n = s->network;
	unsigned taken = 0;
	int r;

	*ret_why = '\0';
	for (size_t i = 0; n && i < SANDBOX_PORTS_MAX; i++)
		taken += n->ports[i].state != PORT_FREE;
	r = s->state == SANDBOX_CLOSING	 ? -ESTALE
	    : !n			 ? -EOPNOTSUPP
	    : !guest			 ? -EINVAL
	    : find_port(n, guest)	 ? -EEXIST
	    : taken == SANDBOX_PORTS_MAX ? -ENOSPC
					 : bind_port(n, &port, fn, data);
	if (r < 0)
		snprintf(ret_why, VM_WHY_MAX, "port %u: %s", guest,
			 r == -EEXIST	    ? "it is forwarded already"
			 : r == -ENOSPC	    ? "there are ten already"
			 : r == -EOPNOTSUPP ? "the sandbox has no network"
					    : strerror(-r));
	return r;
}

int sandbox_unforward(struct sandbox *s, uint16_t guest)
{
	struct network *n = s->network;
	struct port *p = n && !n->closing ? find_port(n, guest) : NULL;

	if (!p || p->state != PORT_BOUND)
		return -ENOENT;
	if (n->gateway)
		(void)gateway_unforward(n->gateway, guest);
	end_port(p);
	return 0;
}
