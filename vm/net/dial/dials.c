/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that are being made: a name is looked up, its addresses are judged and tried, or a proxy is asked. See dials.h. */
#include "dials.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "local.h"
#include "upstream.h"
#include "vm/base/address.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * Addresses are checked after they are resolved, each before it is connected to, and the connection is
 * made to that very address: there is no second lookup with a different result. Addresses that are not
 * public, or in an IPv6 network of this machine, are skipped, unless permitted by the daemon. A public
 * address can still belong to this machine; this is detected after connecting, because then both ends
 * have the same address.
 *
 * getaddrinfo() runs in libuv's threads. Their number is limited, and all sandboxes share them, so each
 * may have RESOLVING_EACH lookups in progress, and all of one user RESOLVING_USER, which leaves some to
 * others; the rest are queued.
 *
 * Where there is an upstream proxy it is connected to instead, and asked for a tunnel (upstream.c). Names are then resolved by it
 * alone, so their addresses are not seen here: it decides which are private. What is given by an address is still judged here, also
 * where a name is one, in any notation; what may be the proxy itself, which would be asked for anything, is refused; and what is
 * spared, which is this machine's or the administrator's, is connected to directly. So is this machine itself by an address that
 * is public, which is then recognized as above: the proxy may be near, or on it.
 *
 * A dial has three handles or requests: a lookup, a poll handle for each attempt, and a timer. It is
 * freed when the last of them is closed; `over` means that its result is not needed any more.
 */

#define DIALS_MAX      4096
#define DIALS_USER     (DIALS_MAX / 2)
#define RESOLVING_EACH 4
#define RESOLVING_USER (DIAL_THREADS * 3 / 4)
#define ATTEMPT_MS     4000 /* for each address but the last */
#define TOTAL_MS       15000

struct dial {
	TAILQ_ENTRY(dial) link;
	struct dials *dials;
	uint32_t id, owner, user, address;
	uint16_t port;
	bool anywhere;
	bool relayed; /* by the upstream proxy, which is what is connected to */
	bool waiting, resolving, polling, over;
	unsigned handles;
	unsigned thread; /* index in `threads`, while resolving */
	uv_getaddrinfo_t lookup;
	uv_timer_t timer;
	uv_poll_t poll;
	int fd;
	uint64_t begun;
	union dial_address addresses[DIAL_ADDRESSES_MAX];
	unsigned naddresses, next;
	char name[ALLOW_NAME_MAX + 1];
	struct upstream upstream; /* its answer */
	size_t nspared;
	uint32_t spared[];
};

static void attempt(struct dial *d);
static void resolve_next(struct dials *dials);

static void unref(struct dial *d)
{
	struct dials *dials = d->dials;

	if (--d->handles)
		return;
	free(d);
	if (--dials->kept == 0)
		dials->gone(dials);
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
	TAILQ_REMOVE(&d->dials->list, d, link);
	d->dials->n--;
	if (d->resolving)
		uv_cancel((uv_req_t *)&d->lookup);
	stop_poll(d);
	uv_close((uv_handle_t *)&d->timer, on_timer_closed);
}

static void answer(struct dial *d, unsigned reason, int fd)
{
	d->dials->done(d->dials, d->id, reason, fd);
	finish(d);
}

/* May it be connected to although it is not public, or this machine's own? */
static bool is_spared(const struct dial *d, const struct sockaddr *sa)
{
	if (d->anywhere || d->relayed)
		return true;
	for (size_t i = 0; sa->sa_family == AF_INET && i < d->nspared; i++)
		if (d->spared[i] == ((const struct sockaddr_in *)sa)->sin_addr.s_addr)
			return true;
	return false;
}

/* No address was found; of a proxy that says nothing of the name that is asked for. */
static unsigned not_found(const struct dial *d)
{
	return d->relayed ? NET_UNREACHABLE : NET_UNRESOLVED;
}

/* How long it still has, at least 1. */
static uint64_t left_ms(const struct dial *d)
{
	const uint64_t spent = uv_now(d->dials->loop) - d->begun;

	return spent < TOTAL_MS ? TOTAL_MS - spent : 1;
}

static void on_timer(uv_timer_t *timer)
{
	struct dial *d = container_of(timer, struct dial, timer);

	if (uv_now(d->dials->loop) - d->begun >= TOTAL_MS || !d->polling)
		answer(d, d->naddresses ? NET_UNREACHABLE : not_found(d), -1);
	else
		stop_poll(d); /* and try the next one */
}

static bool same_host(const union dial_address *a, const union dial_address *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr));
}

/* The proxy has said something: what has come through its tunnel stays in the socket. */
static void on_said(uv_poll_t *poll, int status, int events)
{
	struct dial *d = container_of(poll, struct dial, poll);
	char said[2048];
	const ssize_t n = status < 0 ? 0 : recv(d->fd, said, sizeof(said), MSG_PEEK);
	size_t used = 0;
	int r;

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	r = n > 0 ? upstream_hear(&d->upstream, said, (size_t)n, &used) : -EPROTO;
	if (r == 0 || r == -EAGAIN)
		(void)!recv(d->fd, said, used, 0);
	if (r == -EAGAIN)
		return;
	uv_poll_stop(&d->poll);
	r = r < 0 ? NET_UPSTREAM : (int)upstream_reason(d->upstream.status);
	answer(d, (unsigned)r, r == NET_OK ? steal_fd(&d->fd) : -1);
}

/* Asks the proxy that was connected to. Return: was it? */
static bool ask_upstream(struct dial *d)
{
	char address[INET_ADDRSTRLEN], text[UPSTREAM_ASK_MAX];
	const struct in_addr in = {d->address};
	size_t len;

	inet_ntop(AF_INET, &in, address, sizeof(address));
	len = upstream_ask(d->address ? address : d->name, d->port, text);
	if (send(d->fd, text, len, MSG_NOSIGNAL) != (ssize_t)len)
		return false;
	upstream_init(&d->upstream);
	uv_timer_start(&d->timer, on_timer, left_ms(d), 0);
	uv_poll_start(&d->poll, UV_READABLE, on_said);
	return true;
}

/* The socket at hand is connected, or has failed. Return: is it still needed here? */
static bool on_connected(struct dial *d)
{
	union dial_address here = {0}, there = {0};
	socklen_t here_len = sizeof(here), there_len = sizeof(there), len = sizeof(int);
	int err = 0;

	if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0 || err ||
	    getsockname(d->fd, &here.sa, &here_len) < 0 ||
	    getpeername(d->fd, &there.sa, &there_len) < 0)
		return false;
	if (d->relayed)
		return ask_upstream(d);
	if (same_host(&here, &there) && !is_spared(d, &there.sa))
		answer(d, NET_PRIVATE, -1);
	else
		answer(d, NET_OK, steal_fd(&d->fd));
	return false;
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
	struct dial *d = container_of(poll, struct dial, poll);

	(void)status;
	(void)events;
	uv_poll_stop(&d->poll);
	if (!on_connected(d))
		stop_poll(d);
}

/* Begins to connect to one address. Return: 0 or -errno. */
static int try_address(struct dial *d, union dial_address *to)
{
	const socklen_t len = to->sa.sa_family == AF_INET ? sizeof(to->in) : sizeof(to->in6);
	const int on = 1;
	int r;

	/* The port is at the same place in both. */
	to->in.sin_port = htons(d->relayed ? d->dials->cfg->upstream->port : d->port);
	d->fd = socket(to->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (d->fd < 0)
		return -errno;
	setsockopt(d->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(d->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	r = connect(d->fd, &to->sa, len) < 0 && errno != EINPROGRESS ? -errno : 0;
	if (r == 0)
		r = uv_poll_init(d->dials->loop, &d->poll, d->fd);
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
		const bool last = d->next + 1 == d->naddresses;
		uint64_t ms = left_ms(d);

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
	for (unsigned i = 0; i < all; i++) {
		const struct sockaddr *sa = &d->addresses[i].sa;

		if (is_spared(d, sa) || (address_is_public(sa) && !local_is(sa)))
			d->addresses[d->naddresses++] = d->addresses[i];
	}
	if (d->naddresses == 0)
		answer(d, all ? NET_PRIVATE : not_found(d), -1);
	else
		attempt(d);
}

static void on_resolved(uv_getaddrinfo_t *lookup, int status, struct addrinfo *res)
{
	struct dial *d = container_of(lookup, struct dial, lookup);
	struct dials *dials = d->dials;

	(void)status; /* without addresses it failed, for whatever reason */
	d->resolving = false;
	dials->threads[d->thread].owner = 0;
	for (struct addrinfo *ai = res; ai && d->naddresses < DIAL_ADDRESSES_MAX;
	     ai = ai->ai_next) {
		if (ai->ai_addrlen > sizeof(d->addresses[0]))
			continue;
		memcpy(&d->addresses[d->naddresses++], ai->ai_addr, ai->ai_addrlen);
	}
	uv_freeaddrinfo(res);
	if (!d->over)
		use_addresses(d);
	resolve_next(dials);
	unref(d);
}

/* What is connected to. */
static const char *looked_up(const struct dial *d)
{
	return d->relayed ? d->dials->cfg->upstream->host : d->name;
}

static void resolve(struct dial *d, unsigned thread)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};

	d->waiting = false;
	if (uv_getaddrinfo(d->dials->loop, &d->lookup, on_resolved, looked_up(d), NULL, &hints) <
	    0) {
		answer(d, not_found(d), -1);
		return;
	}
	d->resolving = true;
	d->handles++;
	d->thread = thread;
	d->dials->threads[thread].owner = d->owner;
	d->dials->threads[thread].user = d->user;
}

/* Lookups that nobody waits for any more count: they keep their thread. */
static bool may_resolve(const struct dial *d)
{
	unsigned of_sandbox = 0, of_user = 0;

	for (size_t i = 0; i < ARRAY_SIZE(d->dials->threads); i++) {
		if (!d->dials->threads[i].owner)
			continue;
		of_sandbox += d->dials->threads[i].owner == d->owner;
		of_user += d->dials->threads[i].user == d->user;
	}
	return of_sandbox < RESOLVING_EACH && of_user < RESOLVING_USER;
}

/* Begins a lookup that waits, if there is one and room for it. */
static void resolve_next(struct dials *dials)
{
	unsigned thread = 0;
	struct dial *d;

	while (thread < ARRAY_SIZE(dials->threads) && dials->threads[thread].owner)
		thread++;
	if (thread == ARRAY_SIZE(dials->threads))
		return;
	TAILQ_FOREACH(d, &dials->list, link)
		if (d->waiting && may_resolve(d))
			break;
	if (d)
		resolve(d, thread);
}

/* Names that mean the proxy's own host and network to it; and numbers that are no address here, but may be one to it: 127.0.0.08 is
 * where all are read as decimal ones. */
static bool is_near(const char *name)
{
	static const char *const near[] = {".localhost", ".localdomain", ".localdomain4",
					   ".localdomain6"};
	const char *last = strrchr(name, '.');

	for (size_t i = 0; last && i < ARRAY_SIZE(near); i++)
		if (strcmp(last, near[i]) == 0)
			return true;
	return !last || last[1 + strspn(last + 1, "0123456789")] == '\0';
}

/* May it be where the proxy itself listens? Who is let through to that asks it for whatever he likes, also for what is refused here.
 * Where a name leads the proxy alone knows: so its port is nobody's, but for those of the web, at which there are all others. */
static bool may_be_proxy(const struct dial *d)
{
	const struct upstream_proxy *p = d->dials->cfg->upstream;
	struct in_addr in;

	if (d->port != p->port)
		return false;
	if (d->port != 80 && d->port != 443)
		return true;
	return d->address ? inet_aton(p->host, &in) && in.s_addr == d->address
			  : strcasecmp(d->name, p->host) == 0;
}

/* Does it go by the proxy? Return: 0, or an enum net_reason for which it goes nowhere. */
static unsigned choose_way(struct dial *d)
{
	struct in_addr in = {d->address};
	union dial_address to = {0};
	bool by_name;

	if (!d->dials->cfg->upstream)
		return NET_OK;
	by_name = !d->address && !inet_aton(d->name, &in);
	d->address = in.s_addr;
	if (by_name ? !d->anywhere && is_near(d->name) : !d->address)
		return NET_PRIVATE;
	to.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {d->address}};
	d->relayed = by_name || (address_is_public(&to.sa) && !local_is_own(&to.sa));
	if (d->relayed && !d->anywhere && may_be_proxy(d))
		return NET_PRIVATE;
	return NET_OK;
}

/* Without a lookup, which finds no address of a family of which this machine has but loopback (AI_ADDRCONFIG), and the proxy may be
 * there. Return: how many; -1: they have to be looked up. */
static int known_addresses(struct dial *d)
{
	const struct dial_config *cfg = d->dials->cfg;
	struct in_addr in = {d->address};

	if (d->relayed ? inet_aton(cfg->upstream->host, &in) : d->address != 0) {
		d->addresses[0].in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = in};
		return 1;
	}
	return cfg->resolve ? cfg->resolve(cfg->data, looked_up(d), d->addresses) : -1;
}

static void find_addresses(struct dial *d)
{
	const unsigned reason = choose_way(d);
	int n;

	if (reason != NET_OK) {
		answer(d, reason, -1);
		return;
	}
	n = known_addresses(d);
	if (n >= 0) {
		d->naddresses = (unsigned)n;
		use_addresses(d);
	} else {
		d->waiting = true;
		resolve_next(d->dials);
	}
}

static unsigned dials_of(const struct dials *dials, uint32_t user)
{
	const struct dial *d;
	unsigned n = 0;

	TAILQ_FOREACH(d, &dials->list, link)
		n += d->user == user;
	return n;
}

int dials_begin(struct dials *dials, const struct dial_connect *msg, const uint32_t *spared,
		size_t nspared)
{
	struct dial *d = NULL;

	if (dials->n < DIALS_MAX && dials_of(dials, msg->user) < DIALS_USER)
		d = calloc(1, sizeof(*d) + nspared * sizeof(*spared));
	if (!d)
		return -ENOMEM;
	d->dials = dials;
	d->id = msg->header.id;
	d->owner = msg->owner;
	d->user = msg->user;
	d->address = msg->address;
	d->port = msg->port;
	d->anywhere = msg->anywhere != 0;
	d->fd = -1;
	d->begun = uv_now(dials->loop);
	memcpy(d->name, msg->name, sizeof(d->name));
	if (nspared)
		memcpy(d->spared, spared, nspared * sizeof(*spared));
	d->nspared = nspared;
	uv_timer_init(dials->loop, &d->timer);
	uv_timer_start(&d->timer, on_timer, TOTAL_MS, 0);
	d->handles = 1;
	dials->kept++;
	dials->n++;
	TAILQ_INSERT_TAIL(&dials->list, d, link);
	find_addresses(d);
	return 0;
}

void dials_cancel(struct dials *dials, uint32_t id)
{
	struct dial *d;

	TAILQ_FOREACH(d, &dials->list, link)
		if (d->id == id)
			break;
	if (d)
		finish(d);
}

void dials_cancel_all(struct dials *dials)
{
	while (!TAILQ_EMPTY(&dials->list))
		finish(TAILQ_FIRST(&dials->list));
}

void dials_init(struct dials *dials)
{
	TAILQ_INIT(&dials->list);
}
