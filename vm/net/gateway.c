/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's end of a sandbox's network: it decides where xsbxfs-net may connect to. */
#include "gateway.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "gateway_internal.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * The helper asks for a connection by name, or by address where the list names addresses. It is not
 * trusted to ask only for what is allowed: its list and ours are the same text, and ours counts.
 * gateway_dial.c has the dialer connect; what comes of it is passed to the helper as a descriptor, and
 * the bytes never come through the daemon.
 *
 * A helper that reads nothing while it asks for more is not waited for: there are only so many
 * requests that can be open, and answers that can wait.
 */

union message {
	struct net_header header;
	struct net_dial dial;
	struct net_denied denied;
	struct net_stats stats;
};

static bool is_text(const char *text, size_t size)
{
	const size_t len = strnlen(text, size);

	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] >= 0x7f)
			return false;
	return len > 0 && len < size;
}

/* One message from the helper. Return: 0 or -EPROTO. */
static int obey(struct gateway *gw, const union message *m, size_t len)
{
	switch (len < sizeof(m->header) ? 0 : m->header.type) {
	case NET_READY:
		if (len != sizeof(m->header))
			return -EPROTO;
		gw->cfg.events->ready(gw->cfg.data);
		return 0;
	case NET_DIAL:
		if (len != sizeof(m->dial) || !is_text(m->dial.name, sizeof(m->dial.name)))
			return -EPROTO;
		return gateway_dial(gw, &m->dial);
	case NET_HANG_UP:
		if (len != sizeof(m->header))
			return -EPROTO;
		gateway_hang_up(gw, m->header.id);
		return 0;
	case NET_DENIED:
		if (len != sizeof(m->denied) || m->denied.reason >= NET_NREASONS ||
		    !is_text(m->denied.name, sizeof(m->denied.name)))
			return -EPROTO;
		gw->cfg.events->denied(gw->cfg.data, &m->denied);
		return 0;
	case NET_STATS:
		if (len != sizeof(m->stats))
			return -EPROTO;
		gw->cfg.events->stats(gw->cfg.data, &m->stats);
		return 0;
	default: return -EPROTO;
	}
}

static int on_packet(struct packets *p, const void *bytes, size_t len, int *fd)
{
	(void)fd; /* none can come */
	return obey(container_of(p, struct gateway, packets), bytes, len);
}

static void on_ended(struct packets *p, int err)
{
	struct gateway *gw = container_of(p, struct gateway, packets);

	gateway_end_dials(gw);
	gw->cfg.events->ended(gw->cfg.data, err);
}

static void on_closed(struct packets *p)
{
	struct gateway *gw = container_of(p, struct gateway, packets);

	if (gw->closed)
		gw->closed(gw->closed_data);
	free(gw);
}

int gateway_new(uv_loop_t *loop, int control, const struct gateway_config *cfg,
		struct gateway **ret_gateway)
{
	struct gateway *gw = calloc(1, sizeof(*gw));
	int r;

	if (!gw)
		return -ENOMEM;
	gw->loop = loop;
	gw->cfg = *cfg;
	gw->packets.packet = on_packet;
	gw->packets.ended = on_ended;
	gw->packets.closed = on_closed;
	TAILQ_INIT(&gw->dials);
	r = packets_open(&gw->packets, loop, control);
	if (r < 0) {
		free(gw);
		return r;
	}
	*ret_gateway = gw;
	return 0;
}

int gateway_allow(struct gateway *gw, const char *text, size_t len,
		  char ret_why[static GATEWAY_WHY_MAX])
{
	const struct net_header h = {.type = NET_ALLOW};
	struct allow list;
	int r;

	r = allow_parse(text, len, &list, ret_why);
	if (r < 0)
		return r;
	r = packets_send(&gw->packets, &h, sizeof(h), text, len, -1);
	if (r < 0) {
		allow_fini(&list);
		return r;
	}
	allow_fini(&gw->allow);
	gw->allow = list;
	gateway_recheck(gw);
	return 0;
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
	gateway_end_dials(gw);
	allow_fini(&gw->allow);
	packets_close(&gw->packets);
}
