/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to the outside: resolve, check, connect, and hand over. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "gateway_internal.h"
#include "net/address.h"
#include "net/reason.h"
#include "util.h"

/*
 * Theory of operation
 * -------------------
 * Addresses are checked after they are resolved and one by one before they are connected to, and the
 * connection is to that very address: there is no second lookup that could say otherwise. One that
 * is not public is passed over, unless the list spells it out. A public address can still be one of
 * this machine; that shows when the connection stands, because then both ends have it.
 *
 * getaddrinfo() runs in libuv's threads. There are few of them and everybody shares them, so each
 * gateway has RESOLVING_MAX lookups at work at a time; the others wait.
 *
 * A dial has three handles or requests: a lookup, a poll handle for each attempt, and a timer. It is
 * freed when the last of them is gone; `over` says that nobody waits for its outcome any more.
 */

#define DIALS_MAX     256
#define RESOLVING_MAX 2
#define ATTEMPT_MS    4000 /* for each address but the last */
#define TOTAL_MS      15000

struct dial {
	TAILQ_ENTRY(dial) link;
	struct gateway *gw;
	uint32_t id, address;
	uint16_t port;
	bool waiting, resolving, polling, over;
	unsigned handles;
	uv_getaddrinfo_t lookup;
	uv_timer_t timer;
	uv_poll_t poll;
	int fd;
	uint64_t begun;
	union gateway_address addresses[GATEWAY_ADDRESSES_MAX];
	unsigned naddresses, next;
	char name[ALLOW_NAME_MAX + 1];
};

static void attempt(struct dial *d);
static void resolve_next(struct gateway *gw);

static void unref(struct dial *d)
{
	struct gateway *gw = d->gw;

	if (--d->handles)
		return;
	free(d);
	gateway_unref(gw);
}

static void on_timer_closed(uv_handle_t *handle)
{
	unref(container_of((uv_timer_t *)handle, struct dial, timer));
}

static void on_poll_closed(uv_handle_t *handle)
{
	struct dial *d = container_of((uv_poll_t *)handle, struct dial, poll);

	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
	d->polling = false;
	if (!d->over)
		attempt(d);
	unref(d);
}

static void stop_poll(struct dial *d)
{
	if (d->polling && !uv_is_closing((uv_handle_t *)&d->poll))
		uv_close((uv_handle_t *)&d->poll, on_poll_closed);
}

static void finish(struct dial *d)
{
	if (d->over)
		return;
	d->over = true;
	TAILQ_REMOVE(&d->gw->dials, d, link);
	d->gw->ndials--;
	if (d->resolving)
		uv_cancel((uv_req_t *)&d->lookup);
	stop_poll(d);
	uv_close((uv_handle_t *)&d->timer, on_timer_closed);
}

/* Tells the helper. Takes over @fd, if it is not -1. */
static void answer(struct dial *d, unsigned reason, int fd)
{
	const struct net_dialed msg = {{NET_DIALED, d->id}, reason};

	gateway_send(d->gw, &msg, sizeof(msg), NULL, 0, fd);
	finish(d);
}

static bool is_literal(const struct dial *d, const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET &&
	       allow_literal(&d->gw->allow, ((const struct sockaddr_in *)sa)->sin_addr.s_addr,
			     d->port);
}

/* Does the list allow it? Its addresses are another question. */
static unsigned check_list(const struct dial *d)
{
	const struct allow *allow = &d->gw->allow;

	if (!d->address)
		return allow_name(allow, d->name, d->port) == ALLOW_REFUSED ? NET_NAME : NET_OK;
	return allow_literal(allow, d->address, d->port) || allow_everything(allow, d->port)
		       ? NET_OK
		       : NET_ADDRESS;
}

static void on_timer(uv_timer_t *timer)
{
	struct dial *d = container_of(timer, struct dial, timer);

	if (uv_now(d->gw->loop) - d->begun >= TOTAL_MS || !d->polling)
		answer(d, d->naddresses ? NET_UNREACHABLE : NET_UNRESOLVED, -1);
	else
		stop_poll(d); /* and try the next one */
}

static bool same_host(const union gateway_address *a, const union gateway_address *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr));
}

/* The socket at hand is connected, or has failed. */
static void on_connected(struct dial *d)
{
	union gateway_address here = {0}, there = {0};
	socklen_t here_len = sizeof(here), there_len = sizeof(there), len = sizeof(int);
	int err = 0;

	if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0 || err ||
	    getsockname(d->fd, &here.sa, &here_len) < 0 ||
	    getpeername(d->fd, &there.sa, &there_len) < 0)
		return;
	if (same_host(&here, &there) && !is_literal(d, &there.sa))
		answer(d, NET_PRIVATE, -1);
	else
		answer(d, NET_OK, steal_fd(&d->fd));
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
	struct dial *d = container_of(poll, struct dial, poll);

	(void)status;
	(void)events;
	uv_poll_stop(&d->poll);
	on_connected(d);
	stop_poll(d);
}

/* Begins to connect to one address. Return: 0 or -errno. */
static int try_address(struct dial *d, union gateway_address *to)
{
	const socklen_t len = to->sa.sa_family == AF_INET ? sizeof(to->in) : sizeof(to->in6);
	const int on = 1;
	int r;

	/* The port is at the same place in both. */
	to->in.sin_port = htons(d->port);
	d->fd = socket(to->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (d->fd < 0)
		return -errno;
	setsockopt(d->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(d->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	r = connect(d->fd, &to->sa, len) < 0 && errno != EINPROGRESS ? -errno : 0;
	if (r == 0)
		r = uv_poll_init(d->gw->loop, &d->poll, d->fd);
	if (r < 0) {
		close(d->fd);
		d->fd = -1;
		return r;
	}
	d->polling = true;
	d->handles++;
	uv_poll_start(&d->poll, UV_WRITABLE, on_writable);
	return 0;
}

/* Goes on with the next address that works at all, or gives up. */
static void attempt(struct dial *d)
{
	while (d->next < d->naddresses) {
		const uint64_t spent = uv_now(d->gw->loop) - d->begun;
		const bool last = d->next + 1 == d->naddresses;
		uint64_t ms = spent < TOTAL_MS ? TOTAL_MS - spent : 1;

		if (try_address(d, &d->addresses[d->next++]) < 0)
			continue;
		if (!last)
			ms = MIN(ms, (uint64_t)ATTEMPT_MS);
		uv_timer_start(&d->timer, on_timer, ms, 0);
		return;
	}
	answer(d, NET_UNREACHABLE, -1);
}

/* Drops what must not be connected to, and connects. */
static void use_addresses(struct dial *d)
{
	const unsigned all = d->naddresses;

	d->naddresses = 0;
	for (unsigned i = 0; i < all; i++)
		if (address_is_public(&d->addresses[i].sa) || is_literal(d, &d->addresses[i].sa))
			d->addresses[d->naddresses++] = d->addresses[i];
	if (d->naddresses == 0)
		answer(d, all ? NET_PRIVATE : NET_UNRESOLVED, -1);
	else
		attempt(d);
}

static void on_resolved(uv_getaddrinfo_t *lookup, int status, struct addrinfo *res)
{
	struct dial *d = container_of(lookup, struct dial, lookup);
	struct gateway *gw = d->gw;

	(void)status; /* without addresses it failed, for whatever reason */
	d->resolving = false;
	gw->nresolving--;
	for (struct addrinfo *ai = res; ai && d->naddresses < GATEWAY_ADDRESSES_MAX;
	     ai = ai->ai_next) {
		if (ai->ai_addrlen > sizeof(d->addresses[0]))
			continue;
		memcpy(&d->addresses[d->naddresses++], ai->ai_addr, ai->ai_addrlen);
	}
	uv_freeaddrinfo(res);
	resolve_next(gw);
	if (!d->over)
		use_addresses(d);
	unref(d);
}

static void resolve(struct dial *d)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
	struct gateway *gw = d->gw;

	d->waiting = false;
	if (uv_getaddrinfo(gw->loop, &d->lookup, on_resolved, d->name, NULL, &hints) < 0) {
		answer(d, NET_UNRESOLVED, -1);
		return;
	}
	d->resolving = true;
	d->handles++;
	gw->nresolving++;
}

/* Begins a lookup that waits, if there is one and room for it. */
static void resolve_next(struct gateway *gw)
{
	struct dial *d;

	if (gw->nresolving >= RESOLVING_MAX)
		return;
	TAILQ_FOREACH(d, &gw->dials, link)
		if (d->waiting)
			break;
	if (d)
		resolve(d);
}

static void find_addresses(struct dial *d)
{
	struct gateway *gw = d->gw;
	int n = -1;

	if (d->address) {
		d->addresses[0].in =
			(struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {d->address}};
		n = 1;
	} else if (gw->resolve) {
		n = gw->resolve(gw->data, d->name, d->addresses);
	}
	if (n >= 0) {
		d->naddresses = (unsigned)n;
		use_addresses(d);
	} else {
		d->waiting = true;
		resolve_next(gw);
	}
}

int dial_begin(struct gateway *gw, const struct net_dial *msg)
{
	char canonical[ALLOW_NAME_MAX + 1];
	struct dial *d;
	unsigned reason;

	if (msg->port == 0 || gw->ndials >= DIALS_MAX ||
	    allow_canonical(msg->name, strlen(msg->name), canonical) < 0 ||
	    strcmp(canonical, msg->name) != 0)
		return -EPROTO;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -EPROTO;
	d->gw = gw;
	d->id = msg->header.id;
	d->address = msg->address;
	d->port = msg->port;
	d->fd = -1;
	d->begun = uv_now(gw->loop);
	memcpy(d->name, msg->name, sizeof(d->name));
	uv_timer_init(gw->loop, &d->timer);
	uv_timer_start(&d->timer, on_timer, TOTAL_MS, 0);
	d->handles = 1;
	gw->handles++;
	gw->ndials++;
	TAILQ_INSERT_TAIL(&gw->dials, d, link);
	reason = check_list(d);
	if (reason == NET_OK)
		find_addresses(d);
	else
		answer(d, reason, -1);
	return 0;
}

void dial_hang_up(struct gateway *gw, uint32_t id)
{
	struct dial *d;

	TAILQ_FOREACH(d, &gw->dials, link)
		if (d->id == id)
			break;
	if (d)
		finish(d);
}

void dial_recheck(struct gateway *gw)
{
	struct dial *d, *next;

	for (d = TAILQ_FIRST(&gw->dials); d; d = next) {
		next = TAILQ_NEXT(d, link);
		if (check_list(d) != NET_OK)
			answer(d, NET_WITHDRAWN, -1);
	}
}

void dial_end_all(struct gateway *gw)
{
	while (!TAILQ_EMPTY(&gw->dials))
		finish(TAILQ_FIRST(&gw->dials));
}
