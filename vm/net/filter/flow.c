/* SPDX-License-Identifier: Apache-2.0 */
/* Flows: connections, relayed between the stack and the host. */
#include "flow.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guard.h"
#include "net.h"
#include "vm/base/net_reason.h"
#include "vm/base/buf.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * A flow has two descriptors, the stack's and the host's, and two halves, one for each direction.
 * Bytes are read into a buffer that all flows share and written on at once; only what the other side
 * does not accept is kept, and its source is not read again until that is written. So an idle flow has
 * no buffer, and a slow reader slows its writer down, all the way to the guest's TCP.
 *
 * The guard checks the guest's bytes before they pass. Bytes it has not cleared yet are kept as well,
 * behind those it has. Where the guard has to see the first bytes (TLS, HTTP), the server is dialled only
 * after that: nobody outside learns of a connection that is refused. Other ports are dialled at once,
 * since there the server may speak first.
 *
 *	FLOW_CHECKING	waits for the guest's first bytes
 *	FLOW_DIALING	waits for the daemon, which resolves the name and connects
 *	FLOW_OPEN	passes bytes, until both sides have ended
 *	FLOW_DEAD	is freed at the end of the turn; nothing may free it before, for callers up
 *			the stack have it in their hands
 */

#define READ_MAX   65536
#define CHECKING_S 60 /* for the guest to say what it wants */

enum flow_state { FLOW_CHECKING, FLOW_DIALING, FLOW_OPEN, FLOW_DEAD };
enum flow_side { SIDE_GUEST, SIDE_HOST };

/*
 * What is on its way from one side to the other.
 * - `kept` is at [at, cleared) what is to be written, and behind that what the guard holds.
 */
struct half {
	struct buf kept;
	size_t at, cleared;
	bool ended; /* nothing more will come */
	bool shut;  /* and the other side was told */
};

/* - `address` and `port` say where the guest's packets go; `name` what it means by it. */
struct flow {
	TAILQ_ENTRY(flow) link;
	uint32_t id;
	enum flow_state state;
	int fd[2], place[2];
	struct half half[2]; /* by the side that it comes from */
	bool inbound, guarded, by_name;
	struct guard guard;
	uint32_t address;
	uint16_t port;
	time_t since;
	char name[ALLOW_NAME_MAX + 1];
};

static uint8_t scratch[READ_MAX];

void flow_init(struct flows *flows)
{
	TAILQ_INIT(&flows->list);
}

static struct flow *new_flow(struct net *net, int guest, int host)
{
	struct flow *f = calloc(1, sizeof(*f));

	if (!f) {
		close(guest);
		if (host >= 0)
			close(host);
		return NULL;
	}
	f->id = ++net->flows.next_id;
	f->fd[SIDE_GUEST] = guest;
	f->fd[SIDE_HOST] = host;
	f->place[0] = f->place[1] = -1;
	f->since = net->now;
	TAILQ_INSERT_TAIL(&net->flows.list, f, link);
	net->flows.count++;
	net->connections++;
	return f;
}

static void count_user(struct net *net, const struct flow *f, int change)
{
	struct alias *alias = f->by_name ? alias_find(&net->aliases, f->address, net->now) : NULL;

	if (alias)
		alias->users += (unsigned)change;
}

static void kill_flow(struct net *net, struct flow *f)
{
	const struct net_header hang_up = {NET_HANG_UP, f->id};

	if (f->state == FLOW_DEAD)
		return;
	if (f->state == FLOW_DIALING)
		net_tell(net, &hang_up, sizeof(hang_up));
	for (int s = 0; s < 2; s++) {
		if (f->fd[s] >= 0)
			close(f->fd[s]);
		f->fd[s] = -1;
		buf_clear(&f->half[s].kept);
	}
	count_user(net, f, -1);
	f->state = FLOW_DEAD;
}

static void refuse(struct net *net, struct flow *f, unsigned reason)
{
	if (reason != NET_UNREACHABLE)
		net_deny(net, reason, f->name, f->port);
	kill_flow(net, f);
}

static struct net_dial dial_message(const struct flow *f)
{
	struct net_dial msg = {.header = {NET_DIAL, f->id}, .port = f->port};

	if (!f->by_name)
		msg.address = f->address;
	memcpy(msg.name, f->name, sizeof(msg.name));
	return msg;
}

static void dial(struct net *net, struct flow *f)
{
	const struct net_dial msg = dial_message(f);

	f->state = FLOW_DIALING;
	if (net_tell(net, &msg, sizeof(msg)) < 0)
		kill_flow(net, f);
}

void flow_accept(struct net *net, int fd, uint32_t address, uint16_t port)
{
	struct way way;
	unsigned reason;
	struct flow *f;

	reason = net_find_way(net, address, port, &way);
	f = new_flow(net, fd, -1);
	if (!f)
		return;
	f->address = address;
	f->port = port;
	f->by_name = way.by_name;
	f->guarded = way.guarded;
	memcpy(f->name, way.name, sizeof(f->name));
	count_user(net, f, 1);
	if (reason != NET_OK) { /* the list has changed during the handshake */
		refuse(net, f, reason);
		return;
	}
	if (f->guarded)
		f->guard = guard_for(port);
	if (f->guard.kind == GUARD_OPEN || f->guard.kind == GUARD_SNIFF)
		dial(net, f);
}

void flow_forward(struct net *net, int guest, int host)
{
	struct flow *f = new_flow(net, guest, host);

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
static void push(struct net *net, struct flow *f, enum flow_side s)
{
	struct half *h = &f->half[s];
	const int to = f->fd[!s];
	ssize_t n = 0;

	if (f->state != FLOW_OPEN)
		return;
	if (pending(h)) {
		n = send(to, h->kept.data + h->at, pending(h), MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			kill_flow(net, f);
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
		kill_flow(net, f);
}

/* Shows the guard what it has not cleared yet. */
static void check(struct net *net, struct flow *f)
{
	struct half *h = &f->half[SIDE_GUEST];
	unsigned reason = NET_OK;

	while (h->cleared < h->kept.len) {
		const uint8_t *p = (uint8_t *)h->kept.data + h->cleared;
		const int n = guard_check(&f->guard, p, h->kept.len - h->cleared, f->name, &reason);

		if (n < 0) {
			refuse(net, f, reason);
			return;
		}
		if (n == 0)
			break;
		h->cleared += (size_t)n;
	}
	if (h->kept.len - h->cleared >= GUARD_HOLD_MAX)
		refuse(net, f, f->guard.kind == GUARD_TLS ? NET_NOT_TLS : NET_NOT_HTTP);
	else if (f->state == FLOW_CHECKING && h->cleared > 0)
		dial(net, f);
}

static void ended(struct net *net, struct flow *f, enum flow_side s)
{
	struct half *h = &f->half[s];

	h->ended = true;
	if (f->state == FLOW_CHECKING) {
		kill_flow(net, f);
		return;
	}
	/* What was too short to be judged passes if it may be anything, else it does not. */
	if (f->guard.kind == GUARD_SNIFF)
		h->cleared = h->kept.len;
	h->kept.len = h->cleared;
	push(net, f, s);
}

/* Keeps bytes that were read. Return: false if the flow died of it. */
static bool keep(struct net *net, struct flow *f, enum flow_side s, const void *p, size_t len)
{
	if (buf_append(&f->half[s].kept, p, len) == 0)
		return true;
	kill_flow(net, f);
	return false;
}

static void pull(struct net *net, struct flow *f, enum flow_side s)
{
	const ssize_t n = read(f->fd[s], scratch, sizeof(scratch));
	struct half *h = &f->half[s];
	ssize_t sent;

	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			kill_flow(net, f);
		return;
	}
	if (n == 0) {
		ended(net, f, s);
		return;
	}
	*((s == SIDE_GUEST) ? &net->bytes_out : &net->bytes_in) += (uint64_t)n;
	if (s == SIDE_GUEST && (f->guard.kind != GUARD_OPEN || f->state != FLOW_OPEN)) {
		if (keep(net, f, s, scratch, (size_t)n))
			check(net, f);
		push(net, f, s);
		return;
	}
	sent = send(f->fd[!s], scratch, (size_t)n, MSG_NOSIGNAL);
	if (sent < 0 && errno != EAGAIN && errno != EINTR) {
		kill_flow(net, f);
		return;
	}
	sent = MAX(sent, 0);
	if (sent < n && keep(net, f, s, scratch + sent, (size_t)(n - sent)))
		h->cleared = h->kept.len;
}

void flow_dialed(struct net *net, uint32_t id, unsigned reason, int fd)
{
	struct flow *f;

	TAILQ_FOREACH(f, &net->flows.list, link)
		if (f->id == id && f->state == FLOW_DIALING)
			break;
	if (!f) {
		if (fd >= 0)
			close(fd);
		return;
	}
	if (reason == NET_OK && fd < 0)
		reason = NET_UNREACHABLE; /* there was no descriptor left for it */
	f->state = FLOW_OPEN;		  /* the daemon need not be told to hang up */
	f->fd[SIDE_HOST] = fd;
	if (reason != NET_OK)
		refuse(net, f, reason);
	else
		push(net, f, SIDE_GUEST);
}

int flow_dial_again(struct net *net)
{
	const struct flow *f;
	int r = 0;

	TAILQ_FOREACH(f, &net->flows.list, link) {
		const struct net_dial msg = dial_message(f);

		if (r == 0 && f->state == FLOW_DIALING)
			r = net_insist(net, &msg, sizeof(msg));
	}
	return r;
}

void flow_recheck(struct net *net)
{
	struct way way;
	struct flow *f;

	TAILQ_FOREACH(f, &net->flows.list, link) {
		if (f->inbound || f->state == FLOW_DEAD)
			continue;
		/* One that nobody looked into so far cannot be looked into from now on. */
		if (net_find_way(net, f->address, f->port, &way) != NET_OK ||
		    (way.guarded && !f->guarded))
			refuse(net, f, NET_WITHDRAWN);
	}
}

static bool wants(const struct flow *f, enum flow_side s)
{
	const struct half *h = &f->half[s];

	if (h->ended || pending(h))
		return false;
	return f->state == FLOW_OPEN || (f->state == FLOW_CHECKING && s == SIDE_GUEST);
}

void flow_prepare(struct net *net, int *timeout_ms)
{
	struct flow *f;

	TAILQ_FOREACH(f, &net->flows.list, link) {
		for (int s = 0; s < 2; s++) {
			const bool out = f->state == FLOW_OPEN && pending(&f->half[!s]);
			const int events = (wants(f, s) ? POLLIN : 0) | (out ? POLLOUT : 0);

			f->place[s] = pollset_add(&net->set, f->fd[s], (short)events);
		}
		if (f->state == FLOW_CHECKING && (*timeout_ms < 0 || *timeout_ms > 1000))
			*timeout_ms = 1000;
	}
}

static void run_flow(struct net *net, struct flow *f)
{
	for (int s = 0; s < 2; s++) {
		const short events = pollset_events(&net->set, f->place[s]);

		if ((events & (POLLOUT | POLLERR | POLLHUP)) && pending(&f->half[!s]))
			push(net, f, !s);
		if ((events & (POLLIN | POLLERR | POLLHUP)) && wants(f, s))
			pull(net, f, s);
	}
	if (f->state == FLOW_CHECKING && net->now - f->since > CHECKING_S)
		kill_flow(net, f);
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
