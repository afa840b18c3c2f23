/* SPDX-License-Identifier: Apache-2.0 */
/* Flows: connections, relayed between the stack and the host. */
#include "flow.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "flow_internal.h"
#include "log.h"
#include "vm/base/net_reason.h"
#include "vm/base/buf.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * A flow has two descriptors, the stack's and the host's. It is relayed as it is, or looked into.
 *
 * As it is: it has two halves, one for each direction. Bytes are read into a buffer that all flows share and written on at once;
 * only what the other side does not accept is kept, and its source is not read again until that is written. So an idle flow has
 * no buffer, and a slow reader slows its writer down, all the way to the guest's TCP. The guard checks the guest's bytes before
 * they pass. Bytes it has not cleared yet are kept as well, behind those it has. Where the guard has to see the first bytes (TLS),
 * the server is dialled only after that: nobody outside learns of a connection that is refused. Other ports are dialled at once,
 * since there the server may speak first.
 *
 * Looked into: HTTP that is not encrypted always is, where names are on the list; TLS is where rules or secrets depend on what is
 * said in it. All bytes go through a proxy then (proxy.c), which says what is to be written, and when to dial.
 *
 *	FLOW_CHECKING	waits for the guest's first bytes
 *	FLOW_ASKING	waits for leave
 *	FLOW_DIALING	waits for the daemon, which resolves the name and connects
 *	FLOW_OPEN	passes bytes, until both sides have ended
 *	FLOW_PROXIED	the proxy has it; it is dialled meanwhile, if the proxy wants
 *	FLOW_DEAD	is freed at the end of the turn; nothing may free it before, for callers up
 *			the stack have it in their hands
 *
 * A connection that is refused, but can be told why (net_has_words()), is one whose requests are all refused.
 */

#define READ_MAX   65536
#define CHECKING_S 60 /* for the guest to say what it wants */
#define REFUSING_S 10 /* ... if it does not get it */
#define LINGER_S   5  /* until the last answer is read, behind which nothing is */

static uint8_t scratch[READ_MAX];

void flow_init(struct flows *flows)
{
	TAILQ_INIT(&flows->list);
}

/* ---- begun ---- */

static enum guard_duty duty_of(unsigned reason, const struct prospect *p, uint16_t port)
{
	/* One that is refused says itself whom it is for, which may be somebody who is allowed: then it is as one to him. */
	if (reason != NET_OK)
		return GUARD_REQUESTS_HELD;
	if (p->look)
		return p->guarded || port == 443 ? GUARD_REQUESTS_HELD : GUARD_REQUESTS;
	return p->no_proxy ? GUARD_PROXIES : GUARD_NAMES;
}

void flow_accept(struct net *net, int fd, uint32_t address, uint16_t port)
{
	struct way way;
	unsigned reason = net_find_way(net, address, port, &way);
	struct flow *f = flow_new(net, fd, -1);

	if (!f)
		return;
	f->alias = address;
	f->by_alias = alias_find(&net->aliases, address, net->now) != NULL;
	f->to.address = way.address;
	f->to.port = port;
	memcpy(f->to.host, way.name, sizeof(f->to.host));
	f->verdict = way.prospect.verdict;
	flow_count_user(net, f, 1);
	f->refused = reason;
	if (reason != NET_OK &&
	    !net_has_words(net, port)) { /* the list has changed during the handshake */
		flow_refuse(net, f, reason);
		return;
	}
	f->guarded = reason != NET_OK || way.prospect.guarded || way.prospect.look;
	f->no_proxy = way.prospect.no_proxy;
	if (f->guarded || f->no_proxy)
		f->guard = guard_for(port, duty_of(reason, &way.prospect, port));
	if (f->guard.kind == GUARD_OPEN || guard_sniffs(&f->guard))
		flow_admit(net, f);
}

void flow_forward(struct net *net, int guest, int host)
{
	struct flow *f = flow_new(net, guest, host);

	if (!f)
		return;
	f->inbound = true;
	f->state = FLOW_OPEN;
}

/* Bytes that the other side can have. */
static size_t pending(const struct half *h)
{
	return h->cleared - h->at;
}

/* Writes what is pending from side @s to the other; tells it of the end. */
static void push(struct net *net, struct flow *f, enum side s)
{
	struct half *h = &f->half[s];
	const int to = f->fd[!s];
	ssize_t n = 0;

	if (f->state != FLOW_OPEN)
		return;
	if (pending(h)) {
		n = send(to, h->kept.data + h->at, pending(h), MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			flow_kill(net, f);
			return;
		}
		h->at += n > 0 ? (size_t)n : 0;
	}
	if (pending(h))
		return;
	if (h->at == h->kept.len) {
		buf_clear(&h->kept);
	} else if (h->at > 0) {
		h->kept.len -= h->at;
		memmove(h->kept.data, h->kept.data + h->at, h->kept.len);
	}
	h->at = h->cleared = 0;
	if (!h->ended || h->shut)
		return;
	shutdown(to, SHUT_WR);
	h->shut = true;
	if (f->half[!s].shut)
		flow_kill(net, f);
}

/* ---- looked into ---- */

/* Writes what the proxy has for a side. */
static void flush(struct net *net, struct flow *f, enum side s)
{
	struct channel *c = &f->proxy->side[s];
	ssize_t n;

	if (f->fd[s] < 0 || !proxy_pending(f->proxy, s))
		return;
	n = send(f->fd[s], c->out.data + c->at, proxy_pending(f->proxy, s), MSG_NOSIGNAL);
	if (n > 0)
		proxy_wrote(f->proxy, s, (size_t)n);
	else if (n < 0 && errno != EAGAIN && errno != EINTR && s == SIDE_GUEST)
		flow_kill(net, f);
	else if (n < 0 && errno != EAGAIN && errno != EINTR)
		f->proxy->side[s].at =
			c->out.len; /* it takes nothing more; what it has said may still be there */
}

/* Does what the proxy wants. */
static void serve(struct net *net, struct flow *f)
{
	struct proxy *p = f->proxy;

	proxy_run(p);
	if (p->broken) {
		flow_kill(net, f);
		return;
	}
	if (p->lost) {
		close(f->fd[SIDE_HOST]);
		f->fd[SIDE_HOST] = -1;
		p->lost = false;
	}
	if (p->dials && !p->dialed && !f->asked_dial && f->fd[SIDE_HOST] < 0 && !p->over)
		flow_dial(net, f);
	for (int s = 0; s < 2 && f->state != FLOW_DEAD; s++)
		flush(net, f, (enum side)s);
	if (f->state == FLOW_DEAD)
		return;
	if (p->half_closed && f->fd[SIDE_HOST] >= 0 && !f->half[SIDE_GUEST].shut &&
	    !proxy_pending(p, SIDE_HOST)) {
		f->half[SIDE_GUEST].shut = true;
		shutdown(f->fd[SIDE_HOST], SHUT_WR);
	}
	if (!p->over || proxy_pending(p, SIDE_GUEST))
		return;
	if (!f->half[SIDE_HOST].shut) {
		f->half[SIDE_HOST].shut = true;
		f->since = net->now;
		shutdown(f->fd[SIDE_GUEST], SHUT_WR);
	}
	if (p->side[SIDE_GUEST].ended)
		flow_kill(net, f);
}

/* From now on the proxy has it. What was held back goes there. */
static void look_into(struct net *net, struct flow *f, bool tls)
{
	struct half *h = &f->half[SIDE_GUEST];
	struct buf held = h->kept;

	if (h->at > 0 || h->cleared > 0) { /* something has passed that was to be seen first */
		flow_refuse(net, f, NET_NOT_HTTP);
		return;
	}
	if (proxy_new(net, &f->to, tls, &f->proxy) < 0) {
		flow_kill(net, f);
		return;
	}
	f->asked_dial = f->state == FLOW_DIALING;
	f->state = FLOW_PROXIED;
	h->kept = (struct buf){0};
	if (f->fd[SIDE_HOST] >= 0)
		proxy_dialed(f->proxy, NET_OK);
	proxy_read(f->proxy, SIDE_GUEST, held.data, held.len);
	buf_clear(&held);
	serve(net, f);
}

static void pull_proxied(struct net *net, struct flow *f, enum side s, const void *bytes,
			 size_t len)
{
	if (len == 0)
		proxy_ended(f->proxy, s);
	else
		proxy_read(f->proxy, s, bytes, len);
	serve(net, f);
}

/* ---- checked ---- */

/* It is neither HTTP nor TLS, and rules depend on what is said there. */
static void settle_other(struct net *net, struct flow *f)
{
	f->guard.kind = GUARD_OPEN;
	if (f->refused != NET_OK || f->verdict.verb == RULE_DENY)
		flow_refuse(net, f, f->refused != NET_OK ? f->refused : NET_NOT_HTTP);
	else
		flow_admit(net, f);
}

/* Shows the guard what it has not cleared yet. */
static void check(struct net *net, struct flow *f)
{
	struct half *h = &f->half[SIDE_GUEST];
	unsigned reason = NET_OK;

	while (h->cleared < h->kept.len) {
		const uint8_t *p = (uint8_t *)h->kept.data + h->cleared;
		const int n =
			guard_check(&f->guard, p, h->kept.len - h->cleared, f->to.host, &reason);

		if (n < 0) {
			flow_refuse(net, f, f->refused != NET_OK ? f->refused : reason);
			return;
		}
		if (f->guard.kind == GUARD_PROXY || f->guard.kind == GUARD_PROXY_TLS) {
			look_into(net, f, f->guard.kind == GUARD_PROXY_TLS);
			return;
		}
		if (n == 0)
			break;
		h->cleared += (size_t)n;
	}
	if (h->kept.len - h->cleared >= GUARD_HOLD_MAX) {
		flow_refuse(net, f, f->guard.kind == GUARD_TLS ? NET_NOT_TLS : NET_NOT_HTTP);
	} else if (f->state == FLOW_CHECKING && f->guard.kind == GUARD_OTHER) {
		h->cleared = h->kept.len;
		settle_other(net, f);
	} else if (f->state == FLOW_CHECKING && h->cleared > 0) {
		if (f->refused != NET_OK) {
			flow_refuse(net, f, f->refused);
			return;
		}
		f->to.scheme = f->guard.kind == GUARD_TLS || f->guard.hello.greeted ? "https"
										    : f->to.scheme;
		flow_admit(net, f);
	}
}

static void ended(struct net *net, struct flow *f, enum side s)
{
	struct half *h = &f->half[s];

	h->ended = true;
	if (f->state == FLOW_CHECKING || f->state == FLOW_ASKING) {
		flow_kill(net, f);
		return;
	}
	/* What was too short to be judged passes if it may be anything, else it does not. */
	if (guard_sniffs(&f->guard))
		h->cleared = h->kept.len;
	h->kept.len = h->cleared;
	push(net, f, s);
}

/* Keeps bytes that were read. Return: false if the flow died of it. */
static bool keep(struct net *net, struct flow *f, enum side s, const void *p, size_t len)
{
	if (buf_append(&f->half[s].kept, p, len) == 0)
		return true;
	flow_kill(net, f);
	return false;
}

static void pull(struct net *net, struct flow *f, enum side s)
{
	const ssize_t n = read(f->fd[s], scratch, f->proxy ? PROXY_KEEPS : READ_MAX);
	struct half *h = &f->half[s];
	ssize_t sent;

	if (n < 0) {
		if (errno == EAGAIN || errno == EINTR)
			return;
		if (f->proxy && s == SIDE_HOST) /* the guest is told so */
			pull_proxied(net, f, s, scratch, 0);
		else
			flow_kill(net, f);
		return;
	}
	*((s == SIDE_GUEST) ? &net->bytes_out : &net->bytes_in) += (uint64_t)n;
	f->passed[s] += (uint64_t)n;
	if (!f->inbound && budget_bytes(net, (size_t)n) != NET_OK) {
		flow_refuse(net, f, NET_BUDGET);
		return;
	}
	net->told.ended |= n == 0;
	if (f->proxy) {
		pull_proxied(net, f, s, scratch, (size_t)n);
		return;
	}
	if (n == 0) {
		ended(net, f, s);
		return;
	}
	if (s == SIDE_GUEST && (f->guard.kind != GUARD_OPEN || f->state != FLOW_OPEN)) {
		if (keep(net, f, s, scratch, (size_t)n))
			check(net, f);
		push(net, f, s);
		return;
	}
	sent = send(f->fd[!s], scratch, (size_t)n, MSG_NOSIGNAL);
	if (sent < 0 && errno != EAGAIN && errno != EINTR) {
		flow_kill(net, f);
		return;
	}
	sent = MAX(sent, 0);
	if (sent < n && keep(net, f, s, scratch + sent, (size_t)(n - sent)))
		h->cleared = h->kept.len;
}

static struct flow *find_dialled(struct net *net, uint32_t id)
{
	struct flow *f;

	TAILQ_FOREACH(f, &net->flows.list, link)
		if (f->id == id && (f->state == FLOW_DIALING || f->asked_dial))
			return f;
	return NULL;
}

void flow_dialed(struct net *net, uint32_t id, unsigned reason, int fd)
{
	struct flow *f = find_dialled(net, id);

	if (!f) {
		if (fd >= 0)
			close(fd);
		return;
	}
	if (reason == NET_OK && fd < 0)
		reason = NET_UNREACHABLE; /* there was no descriptor left for it */
	f->asked_dial = false;
	f->fd[SIDE_HOST] = fd;
	if (f->proxy) {
		proxy_dialed(f->proxy, reason);
		serve(net, f);
		return;
	}
	f->state = FLOW_OPEN; /* the daemon need not be told to hang up */
	if (reason != NET_OK)
		flow_refuse(net, f, reason);
	else
		push(net, f, SIDE_GUEST);
}

static void recheck(struct net *net, struct flow *f)
{
	struct way way;
	unsigned reason;
	bool unseen;

	if (f->proxy) {
		proxy_recheck(f->proxy);
		return;
	}
	if (f->refused != NET_OK)
		return;
	reason = net_find_way(net, f->alias, f->to.port, &way);
	if (f->left && reason == NET_OK && way.prospect.verdict.verb == RULE_ASK)
		return;
	/* One that nobody looked into so far cannot be looked into from now on. */
	if (f->state == FLOW_CHECKING)
		unseen = way.prospect.look && f->guard.kind != GUARD_LOOK;
	else
		unseen = way.prospect.look ||
			 (f->state != FLOW_ASKING && way.prospect.verdict.verb == RULE_ASK);
	unseen |= way.prospect.no_proxy && !f->no_proxy && !f->guarded;
	if (reason != NET_OK || (way.prospect.guarded && !f->guarded) || unseen)
		flow_refuse(net, f, NET_WITHDRAWN);
	else if (f->state == FLOW_CHECKING)
		f->verdict = way.prospect.verdict; /* by which it will be admitted */
}

void flow_recheck(struct net *net)
{
	struct flow *f;

	TAILQ_FOREACH(f, &net->flows.list, link)
		if (!f->inbound && f->state != FLOW_DEAD)
			recheck(net, f);
}

static bool wants(const struct flow *f, enum side s)
{
	const struct half *h = &f->half[s];

	if (f->fd[s] < 0)
		return false;
	if (f->proxy)
		return proxy_wants(f->proxy, s);
	if (h->ended || pending(h))
		return false;
	return f->state == FLOW_OPEN ||
	       (s == SIDE_GUEST && (f->state == FLOW_CHECKING || f->state == FLOW_ASKING) &&
		h->kept.len < GUARD_HOLD_MAX);
}

/* Is there something to be written to side @s? */
static bool has_output(const struct flow *f, enum side s)
{
	if (f->proxy)
		return proxy_pending(f->proxy, s) > 0;
	return f->state == FLOW_OPEN && pending(&f->half[!s]);
}

void flow_prepare(struct net *net, int *timeout_ms)
{
	const int pause_ms = budget_pause_ms(net);
	struct flow *f;

	if (pause_ms)
		net_wake_at(timeout_ms, 0, pause_ms);
	TAILQ_FOREACH(f, &net->flows.list, link) {
		for (int s = 0; s < 2; s++) {
			const bool in = wants(f, (enum side)s) && (!pause_ms || f->inbound);
			const int events =
				(in ? POLLIN : 0) | (has_output(f, (enum side)s) ? POLLOUT : 0);

			f->place[s] = pollset_add(&net->set, f->fd[s], (short)events);
		}
		if (f->state == FLOW_CHECKING || f->proxy)
			net_wake_at(timeout_ms, 0, f->proxy && f->proxy->again ? 0 : 1000);
	}
}

/* What takes too long ends. */
static void check_time(struct net *net, struct flow *f)
{
	const time_t age = net->now - f->since;

	if (f->state == FLOW_CHECKING && age > (f->refused == NET_OK ? CHECKING_S : REFUSING_S))
		f->refused == NET_OK ? flow_kill(net, f) : flow_refuse(net, f, f->refused);
	else if (f->proxy && f->proxy->over
			 ? f->half[SIDE_HOST].shut && age > LINGER_S
			 : f->proxy && f->proxy->speech == PROXY_SILENT && age > CHECKING_S)
		flow_kill(net, f);
}

static void run_flow(struct net *net, struct flow *f)
{
	for (int s = 0; s < 2; s++) {
		const short events = pollset_events(&net->set, f->place[s]);

		if ((events & (POLLOUT | POLLERR | POLLHUP)) && !f->proxy && pending(&f->half[!s]))
			push(net, f, !s);
		if ((events & (POLLIN | POLLERR | POLLHUP)) && wants(f, (enum side)s))
			pull(net, f, (enum side)s);
	}
	if (f->proxy)
		serve(net, f);
	check_time(net, f);
}

void flow_run(struct net *net)
{
	struct flow *f, *next;

	for (f = TAILQ_FIRST(&net->flows.list); f; f = next) {
		next = TAILQ_NEXT(f, link);
		if (f->state != FLOW_DEAD)
			run_flow(net, f);
		if (f->state != FLOW_DEAD)
			continue;
		TAILQ_REMOVE(&net->flows.list, f, link);
		net->flows.count--;
		free(f);
	}
}
