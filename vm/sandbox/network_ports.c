/* SPDX-License-Identifier: Apache-2.0 */
/* The ports of a sandbox's network: bound by the dialer, forwarded by its filter. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "network_internal.h"
#include "vm/base/lent.h"
#include "vm/base/problem.h"
#include "vm/base/util.h"
#include "vm/net/dialer_process.h"

/*
 * Theory of operation
 * -------------------
 * The dialer binds ports, xsbxfs-net accepts at them, and the socket is kept here as well: it is there
 * before the helper is, and a port is given up when it is closed here and the helper has been told.
 *
 * Ports of the spec are bound as soon as the sandbox is asked for, and before it is said to be READY:
 * one that is taken ends the sandbox before anything has run, also if that is a clone. They are given
 * up in the moment in which a sandbox ends, before it is taken down: the next one of its session may
 * ask for them with the very next request.
 */

static_assert(SANDBOX_PORTS_MAX == NET_FORWARDS_MAX, "as many as xsbxfs-net forwards");

/* Explains why a port is not available. */
static void explain_port(const struct port *p, int err, char *out, size_t size)
{
	const struct sandbox *other;

	TAILQ_FOREACH(other, &p->network->s->vm->sandboxes, link) {
		for (size_t i = 0; other->network && err == -EADDRINUSE && i < SANDBOX_PORTS_MAX;
		     i++)
			if (other->network->ports[i].state == PORT_BOUND &&
			    other->network->ports[i].host == p->host) {
				snprintf(out, size, "port %u of this machine: sandbox %.64s has it",
					 p->host, other->spec.name);
				return;
			}
	}
	snprintf(out, size, "port %u of this machine: %s", p->host,
		 err == -EADDRINUSE ? "somebody uses it"
		 : err == -EACCES   ? "ports below 1024 are not for sandboxes"
				    : strerror(-err));
}

static void port_taken(struct port *p, int err)
{
	struct problem problem;
	char why[VM_WHY_MAX];

	explain_port(p, err, why, sizeof(why));
	problem_set(&problem, PROBLEM_PORT_TAKEN,
		    "Give another one in `ports`, or none, and a free one is chosen.",
		    "port %u of the sandbox can't be forwarded: %s", p->guest, why);
	p->network->ops->fail(p->network->s, &problem);
}

/* Answers whoever asked for the port; a port of the spec ends the sandbox. */
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

	if (result == 0 && n->lost)
		result = -ENETDOWN;
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
	tell_owner(n->s, ports);
	n->ops->changed(n->s);
}

/* Starts binding a port in the first free entry, *ret_p, which stays free on failure. Return: 0 or -errno. */
static int bind_port(struct network *n, const struct sandbox_port *port, sandbox_forward_fn fn,
		     void *data, struct port **ret_p)
{
	struct dialer *dialer = dialer_process_get(&n->s->vm->dialer_process);
	struct port *p = n->ports;
	int r;

	while (p->state != PORT_FREE)
		p++;
	*p = (struct port){.network = n,
			   .guest = port->guest,
			   .host = port->host,
			   .listener = -1,
			   .fn = fn,
			   .data = data};
	p->request.done = on_bound;
	*ret_p = p;
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
	if (p->state == PORT_BOUND) {
		/* The helper has the socket too, and may end later: shutdown() frees the port at once. */
		shutdown(p->listener, SHUT_RDWR);
		lent_close(&p->listener);
	}
	p->state = PORT_FREE;
	if (!told)
		p->fn(p->data, -ESTALE, NULL, "the sandbox has ended");
}

bool network_is_ready(const struct sandbox *s)
{
	if (s->network && !network_is_vouched(s->network))
		return false;
	for (size_t i = 0; s->network && i < SANDBOX_PORTS_MAX; i++)
		if (s->network->ports[i].state == PORT_BINDING && !s->network->ports[i].fn)
			return false;
	return true;
}

void network_bind_ports(struct network *n, const struct sandbox_port *ports, size_t nports)
{
	for (size_t i = 0; i < nports; i++) {
		struct port *p;
		int r = bind_port(n, &ports[i], NULL, NULL, &p);

		if (r < 0) {
			port_taken(p, r);
			return; /* port_taken() has ended the sandbox */
		}
	}
}

int network_hand_over_ports(struct network *n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < SANDBOX_PORTS_MAX; i++)
		if (n->ports[i].state == PORT_BOUND)
			r = gateway_forward(n->gateway, n->ports[i].guest, n->ports[i].listener);
	return r;
}

void network_end_ports(struct network *n)
{
	for (size_t i = 0; i < SANDBOX_PORTS_MAX; i++)
		if (n->ports[i].state != PORT_FREE)
			end_port(&n->ports[i]);
}

void network_lose_ports(struct network *n)
{
	for (size_t i = 0; i < SANDBOX_PORTS_MAX; i++) {
		struct port *p = &n->ports[i];

		if (p->state == PORT_BOUND || (p->state == PORT_BINDING && !p->fn))
			end_port(p);
	}
}

void network_let_go(struct sandbox *s)
{
	if (s->network)
		network_lose_ports(s->network);
}

/* ---- the seam ---- */

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
	struct port *p;
	unsigned taken = 0;
	int r;

	*ret_why = '\0';
	for (size_t i = 0; n && i < SANDBOX_PORTS_MAX; i++)
		taken += n->ports[i].state != PORT_FREE;
	r = s->state == SANDBOX_CLOSING	 ? -ESTALE
	    : !n			 ? -EOPNOTSUPP
	    : n->lost			 ? -ENETDOWN
	    : !guest			 ? -EINVAL
	    : find_port(n, guest)	 ? -EEXIST
	    : taken == SANDBOX_PORTS_MAX ? -ENOSPC
					 : bind_port(n, &port, fn, data, &p);
	if (r == -ENOSPC)
		snprintf(ret_why, VM_WHY_MAX, "port %u: there are %d already", guest,
			 SANDBOX_PORTS_MAX);
	else if (r < 0)
		snprintf(ret_why, VM_WHY_MAX, "port %u: %s", guest,
			 r == -EEXIST	    ? "it is forwarded already"
			 : r == -EOPNOTSUPP ? "the sandbox has no network"
			 : r == -ENETDOWN   ? NETWORK_LOST
					    : strerror(-r));
	return r;
}

int sandbox_unforward(struct sandbox *s, uint16_t guest)
{
	struct network *n = s->network;
	struct port *p = n && !n->closing ? find_port(n, guest) : NULL;

	if (!p)
		return -ENOENT;
	if (n->gateway && p->state == PORT_BOUND)
		(void)gateway_unforward(n->gateway, guest);
	end_port(p);
	n->ops->changed(s); /* maybe READY waited for this one */
	return 0;
}
