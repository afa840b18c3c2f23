/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's side of a sandbox's network: decides where xsbxfs-net may connect to. */
#include "gateway_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "dialer.h"
#include "vm/base/fdbag.h"
#include "vm/base/lent.h"
#include "vm/base/net_reason.h"
#include "vm/base/record.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * The helper asks for a connection by name, or by address where the list names addresses. It is not
 * trusted to ask only for what is allowed: its list and ours are the same text, and ours counts.
 * The dialer connects; what comes of it is passed to the helper as a descriptor, and the bytes never
 * come through the daemon.
 *
 * A helper that reads nothing while it asks for more is not waited for: there are only so many
 * requests that can be open, and answers that can wait.
 *
 * This process knows the list, and the dialer finds addresses. So each request contains the list's
 * literal addresses for this port, which may be non-public. If the list was written by the
 * administrator, hosts that it names may have non-public addresses as well; but not those that are
 * only matched by a `*`.
 *
 * The host has a special name, which is not resolved: it leads to the loopback address, and only to
 * ports that the administrator opens.
 *
 * When the list is replaced, requests that are no longer allowed end.
 *
 * A gateway that another process had (gateway_take()) knows nothing but its socket. It does not know what of that process's
 * words has arrived, nor what it has read. So all is said again (NET_RESYNC), and the helper asks again for what was not
 * answered; what it has asked for before that is not looked at.
 *
 * With a turn, that process may have ended between two instructions. What it has handled is in the socket still, as the
 * first message, or is not: so of what would not be the same if it came twice, the last number is recorded.
 */

#define DIALS_MAX  256
#define STATS_MOST (1ull << 60) /* more is what no filter has seen */

struct dial {
	TAILQ_ENTRY(dial) link;
	struct gateway *gw;
	uint32_t id, address;
	uint16_t port;
	struct dialer_request request;
	char name[ALLOW_NAME_MAX + 1];
};

/* ---- requests ---- */

static void dial_free(struct dial *d)
{
	dialer_cancel(&d->request);
	TAILQ_REMOVE(&d->gw->dials, d, link);
	d->gw->ndials--;
	free(d);
}

/* Tells the helper, and forgets it. Takes over @fd, if it is not -1. */
static void answer(struct dial *d, unsigned reason, int fd)
{
	const struct net_dialed msg = {{NET_DIALED, d->id}, reason};

	(void)packets_send(&d->gw->packets, &msg, sizeof(msg), NULL, 0, fd);
	dial_free(d);
}

static bool is_host(const struct dial *d)
{
	return !d->address && strcmp(d->name, ALLOW_HOST) == 0;
}

/* Do the lists allow it, or has somebody, where they let one ask? Its addresses are another question. */
static unsigned check_lists(const struct dial *d)
{
	const struct gateway *gw = d->gw;
	const struct prospect f = egress_foresee(&gw->egress, d->name, d->address, d->port);
	const bool may = f.may || (f.asks && leaves_have(&gw->leaves, d->name, d->port));

	if (may && is_host(d) && !vm_host_port_is_open(&gw->cfg.host_ports, d->port))
		return NET_PORT;
	return may ? NET_OK : d->address ? NET_ADDRESS : NET_NAME;
}

static void on_done(struct dialer_request *rq, int result, uint16_t port, int *fd)
{
	struct dial *d = rq->data;
	const struct gateway_config *cfg = &d->gw->cfg;

	(void)port;
	if (result == NET_OK && cfg->events->connected)
		cfg->events->connected(cfg->data, d->name, d->port);
	if (result == NET_OK)
		leaves_use(&d->gw->leaves, d->name, d->port);
	answer(d, (unsigned)result, steal_fd(fd));
}

static int connect_it(struct dial *d)
{
	const uint32_t loopback = htonl(INADDR_LOOPBACK);
	uint32_t spared[ALLOW_ENTRIES_MAX];
	const struct gateway_config *cfg = &d->gw->cfg;
	struct dialer_target to = {
		.owner = cfg->owner,
		.user = cfg->user,
		.name = d->name,
		.address = d->address,
		.port = d->port,
		.anywhere = cfg->trusted_names && !d->address &&
			    egress_names(&d->gw->egress, d->name, d->port),
		.spared = spared,
		.nspared = egress_addresses(&d->gw->egress, d->port, spared),
	};

	if (is_host(d)) {
		to.name = "127.0.0.1";
		to.address = loopback;
		to.spared = &loopback;
		to.nspared = 1;
	}
	d->request.done = on_done;
	d->request.data = d;
	return dialer_connect(cfg->dialer, &d->request, &to);
}

/* Rules go by the name, the dialer by the address: they have to be the same. */
static bool is_one_place(const struct net_dial *msg)
{
	char address[INET_ADDRSTRLEN];

	if (msg->address)
		return inet_ntop(AF_INET, &msg->address, address, sizeof(address)) &&
		       !strcmp(address, msg->name);
	return allow_is_canonical(msg->name);
}

static struct dial *dial_new(struct gateway *gw, const struct net_dial *msg)
{
	struct dial *d;

	if (msg->port == 0 || !is_one_place(msg))
		return NULL;
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	d->gw = gw;
	d->id = msg->header.id;
	d->address = msg->address;
	d->port = msg->port;
	memcpy(d->name, msg->name, sizeof(d->name));
	gw->ndials++;
	TAILQ_INSERT_TAIL(&gw->dials, d, link);
	return d;
}

static void dial(struct dial *d)
{
	const struct gateway *gw = d->gw;
	unsigned reason;

	/* The filter counts a connection when it is made, and several may be on their way. */
	reason = gw->ndials > DIALS_MAX ? NET_BUSY : check_lists(d);
	if (reason == NET_OK && connect_it(d) < 0)
		reason = NET_UNREACHABLE;
	if (reason != NET_OK)
		answer(d, reason, -1);
}

/* Handles a request of the helper. Return: 0, or -EPROTO if an honest helper would not make it. */
static int begin_dial(struct gateway *gw, const struct net_dial *msg)
{
	struct dial *d;

	if (gw->resyncs)
		return 0;
	d = dial_new(gw, msg);

	if (!d)
		return -EPROTO;
	dial(d);
	return 0;
}

/* The helper cancels a request, which need not exist. */
static void hang_up(struct gateway *gw, uint32_t id)
{
	struct dial *d;

	TAILQ_FOREACH(d, &gw->dials, link)
		if (d->id == id)
			break;
	if (d)
		dial_free(d);
}

/* Ends requests that the list no longer allows. */
static void recheck(struct gateway *gw)
{
	struct dial *d, *next;

	for (d = TAILQ_FIRST(&gw->dials); d; d = next) {
		next = TAILQ_NEXT(d, link);
		if (check_lists(d) != NET_OK)
			answer(d, NET_WITHDRAWN, -1);
	}
}

static void end_dials(struct gateway *gw)
{
	while (!TAILQ_EMPTY(&gw->dials))
		dial_free(TAILQ_FIRST(&gw->dials));
}

/* ---- the helper ---- */

union message {
	struct net_header header;
	struct net_dial dial;
	struct net_denied denied;
	struct net_stats stats;
	struct net_authority authority;
	struct net_asked asked;
	struct net_unasked unasked;
	struct net_logged logged;
	struct net_secret_read secret;
};

/* That of a process before comes first, if it has died before it took it out of the socket. */
static int on_resynced(struct gateway *gw, uint32_t number)
{
	if (!gw->resyncs)
		return -EPROTO;
	if (number == gw->resync)
		gw->resyncs = false;
	return 0;
}

static int on_denied(struct gateway *gw, const struct net_denied *m)
{
	if (m->reason >= NET_NREASONS || !gateway_is_text(m->name, sizeof(m->name)))
		return -EPROTO;
	if (m->header.id && m->header.id == gw->denied)
		return 0;
	gw->denied = m->header.id;
	gw->cfg.events->denied(gw->cfg.data, m);
	return 0;
}

/* They are summed up, for all of a user's and for all users, and written down. */
static int on_stats(const struct gateway *gw, const struct net_stats *m)
{
	if (m->bytes_in > STATS_MOST || m->bytes_out > STATS_MOST || m->connections > STATS_MOST)
		return -EPROTO;
	gw->cfg.events->stats(gw->cfg.data, m);
	return 0;
}

/* One message from the helper. Return: 0 or -errno. */
static int obey(struct gateway *gw, const union message *m, size_t len)
{
	static const size_t size[] = {
		[NET_READY] = sizeof(m->header),    [NET_DIAL] = sizeof(m->dial),
		[NET_HANG_UP] = sizeof(m->header),  [NET_DENIED] = sizeof(m->denied),
		[NET_STATS] = sizeof(m->stats),	    [NET_CALLED] = sizeof(m->header),
		[NET_RESYNCED] = sizeof(m->header), [NET_AUTHORITY] = sizeof(m->authority),
		[NET_ASKED] = sizeof(m->asked),	    [NET_UNASKED] = sizeof(m->unasked),
		[NET_LOGGED] = sizeof(m->logged),   [NET_SECRET_READ] = sizeof(m->secret),
	};
	const uint32_t type = len < sizeof(m->header) ? 0 : m->header.type;

	if (type >= ARRAY_SIZE(size) || len != size[type])
		return -EPROTO;
	switch (type) {
	case NET_READY: gw->cfg.events->ready(gw->cfg.data); return 0;
	case NET_RESYNCED: return on_resynced(gw, m->header.id);
	case NET_DIAL:
		return gateway_is_text(m->dial.name, sizeof(m->dial.name))
			       ? begin_dial(gw, &m->dial)
			       : -EPROTO;
	case NET_HANG_UP: hang_up(gw, m->header.id); return 0;
	case NET_DENIED: return on_denied(gw, &m->denied);
	case NET_AUTHORITY: return gateway_on_authority(gw, &m->authority);
	case NET_ASKED: return gateway_on_asked(gw, &m->asked);
	case NET_UNASKED: return gateway_on_unasked(gw, &m->unasked);
	case NET_LOGGED: return gateway_on_logged(gw, &m->logged);
	case NET_SECRET_READ: return gateway_on_secret(gw, &m->secret);
	case NET_STATS: return on_stats(gw, &m->stats);
	case NET_CALLED:
		if (gw->cfg.events->called)
			gw->cfg.events->called(gw->cfg.data);
		return 0;
	default: return -EPROTO;
	}
}

static int on_packet(struct packets *p, const void *bytes, size_t len, int *fd)
{
	struct gateway *gw = container_of(p, struct gateway, packets);

	(void)fd; /* none can come */
	gateway_touch(gw);
	return obey(gw, bytes, len);
}

static void on_speak(struct turn_speaker *sp)
{
	packets_say(&container_of(sp, struct gateway, speaks)->packets);
}

static void on_consume(struct turn_speaker *sp)
{
	packets_take_out(&container_of(sp, struct gateway, consumes)->packets);
}

static bool on_later(struct packets *p, enum packets_rest rest)
{
	struct gateway *gw = container_of(p, struct gateway, packets);

	if (!turn_is_on(gateway_turn(gw)))
		return false;
	if (rest == PACKETS_SAY)
		turn_speak(gateway_turn(gw), TURN_FRAMES, &gw->speaks);
	else
		turn_speak(gateway_turn(gw), TURN_CONSUME, &gw->consumes);
	return true;
}

static void on_ended(struct packets *p, int err)
{
	struct gateway *gw = container_of(p, struct gateway, packets);

	end_dials(gw);
	gw->cfg.events->ended(gw->cfg.data, err);
}

static void on_closed(struct packets *p)
{
	struct gateway *gw = container_of(p, struct gateway, packets);

	if (gw->closed)
		gw->closed(gw->closed_data);
	free(gw);
}

static struct gateway *gateway_make(const struct gateway_config *cfg)
{
	struct gateway *gw = calloc(1, sizeof(*gw));

	if (!gw)
		return NULL;
	gw->cfg = *cfg;
	gw->packets.packet = on_packet;
	gw->packets.ended = on_ended;
	gw->packets.closed = on_closed;
	gw->packets.later = on_later;
	gw->speaks.speak = on_speak;
	gw->consumes.speak = on_consume;
	gw->recheck = recheck;
	TAILQ_INIT(&gw->dials);
	leaves_init(&gw->leaves);
	return gw;
}

int gateway_new(uv_loop_t *loop, int control, const struct gateway_config *cfg,
		struct gateway **ret_gateway)
{
	struct gateway *gw = gateway_make(cfg);
	int r;

	if (!gw)
		return -ENOMEM;
	r = packets_open(&gw->packets, loop, control);
	if (r < 0) {
		free(gw);
		return r;
	}
	*ret_gateway = gw;
	return 0;
}

int gateway_go(struct gateway *gw)
{
	const struct net_header h = {.type = NET_GO};

	return packets_send(&gw->packets, &h, sizeof(h), NULL, 0, -1);
}

int gateway_forward(struct gateway *gw, uint16_t guest, int listener)
{
	const struct net_header h = {NET_FORWARD, guest};
	int fd, r;

	for (unsigned i = 0; i < gw->nforwards; i++)
		if (gw->forwards[i] == guest)
			return -EEXIST;
	if (gw->nforwards == NET_FORWARDS_MAX || guest == 0)
		return guest ? -ENOSPC : -EINVAL;
	fd = fcntl(listener, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	r = packets_send(&gw->packets, &h, sizeof(h), NULL, 0, fd);
	if (r == 0)
		gw->forwards[gw->nforwards++] = guest;
	return r;
}

int gateway_unforward(struct gateway *gw, uint16_t guest)
{
	const struct net_header h = {NET_UNFORWARD, guest};

	for (unsigned i = 0; i < gw->nforwards; i++) {
		if (gw->forwards[i] != guest)
			continue;
		gw->forwards[i] = gw->forwards[--gw->nforwards];
		return packets_send(&gw->packets, &h, sizeof(h), NULL, 0, -1);
	}
	return -ENOENT;
}

int gateway_ask_stats(struct gateway *gw)
{
	const struct net_header h = {.type = NET_ASK_STATS};

	return packets_send(&gw->packets, &h, sizeof(h), NULL, 0, -1);
}

void gateway_close(struct gateway *gw, void (*closed)(void *data), void *data)
{
	gw->closed = closed;
	gw->closed_data = data;
	if (gateway_turn(gw)) {
		turn_hush(gateway_turn(gw), &gw->speaks);
		turn_hush(gateway_turn(gw), &gw->consumes);
	}
	end_dials(gw);
	egress_fini(&gw->egress);
	leaves_fini(&gw->leaves);
	packets_close(&gw->packets);
}

/* ---- from one daemon to the next ---- */

/* Never reuse one. */
enum {
	TAG_FD = 1,
	TAG_DIAL /* not used any more */,
	TAG_RESYNC,
	TAG_DENIED,
	TAG_LOGGED,
	TAG_GIVEN,
	TAG_KNOWS_POLICY,
	TAG_HAS_POLICY,
	TAG_ASKED,
};

void gateway_put(const struct gateway *gw, struct buf *out, struct fdbag *fds)
{
	record_u64(out, TAG_FD, fdbag_put(fds, gw->packets.fd));
	record_u64(out, TAG_RESYNC, gw->resync);
	record_u64(out, TAG_DENIED, gw->denied);
	record_u64(out, TAG_LOGGED, gw->logged);
	record_u64(out, TAG_KNOWS_POLICY, !gw->lists_only);
	record_u64(out, TAG_HAS_POLICY, gw->has_policy);
	leaves_put(&gw->leaves, TAG_ASKED, TAG_GIVEN, out);
}

static int take_fields(struct gateway *gw, struct record_reader r, uint32_t *ret_fd)
{
	struct record_field f;
	uint64_t knows = 0, has = 0;
	int n;

	while ((n = record_field(&r, &f)) > 0) {
		switch (f.tag) {
		case TAG_FD: n = record_get_u32(&f, FDBAG_MAX, ret_fd); break;
		case TAG_RESYNC: n = record_get_u32(&f, UINT32_MAX, &gw->resync); break;
		case TAG_DENIED: n = record_get_u32(&f, UINT32_MAX, &gw->denied); break;
		case TAG_LOGGED: n = record_get_u32(&f, UINT32_MAX, &gw->logged); break;
		case TAG_KNOWS_POLICY: n = record_get(&f, 0, 1, &knows); break;
		case TAG_HAS_POLICY: n = record_get(&f, 0, 1, &has); break;
		case TAG_ASKED: n = leaves_take_asked(&gw->leaves, &f); break;
		case TAG_GIVEN: n = leaves_take(&gw->leaves, &f); break;
		default: break;
		}
		if (n < 0)
			break;
	}
	gw->lists_only = !knows;
	gw->has_policy = has;
	return n;
}

int gateway_take(uv_loop_t *loop, const struct record_reader *fields, struct fdbag *fds,
		 const struct gateway_config *cfg, struct gateway **ret_gateway)
{
	struct gateway *gw = gateway_make(cfg);
	uint32_t number = 0;
	int r = gw ? take_fields(gw, *fields, &number) : -ENOMEM;
	int fd = r == 0 ? fdbag_take(fds, number) : -1;

	if (r == 0)
		r = fd < 0 ? -EBADMSG : packets_open(&gw->packets, loop, fd);
	if (r < 0) {
		lent_close(&fd);
		if (gw)
			leaves_fini(&gw->leaves);
		free(gw);
		return r;
	}
	gw->resyncs = true;
	gw->resync++;
	*ret_gateway = gw;
	return 0;
}

int gateway_resync(struct gateway *gw, const uint16_t *ports, unsigned n)
{
	struct net_resync msg = {.header = {NET_RESYNC, gw->resync}};

	memcpy(msg.port, ports, MIN(n, (unsigned)NET_FORWARDS_MAX) * sizeof(*ports));
	return packets_send(&gw->packets, &msg, sizeof(msg), NULL, 0, -1);
}
