/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to the outside: checked against the list, and asked for. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "dialer.h"
#include "gateway_internal.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * The list is what this process knows, addresses are what the dialer finds. So with each request goes
 * what the list says of addresses: those that it spells out for this port may be anywhere. Where the
 * list was written by the administrator, the hosts that it names may be anywhere as well; not those
 * that are merely let through by a `*`.
 *
 * The host has a name of its own, which is not resolved: it leads to the loopback address, and to those
 * ports alone that the administrator opens.
 *
 * A list that is replaced ends the requests that it no longer allows.
 */

#define DIALS_MAX 256

struct dial {
	TAILQ_ENTRY(dial) link;
	struct gateway *gw;
	uint32_t id, address;
	uint16_t port;
	struct dialer_request request;
	char name[ALLOW_NAME_MAX + 1];
};

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

static bool host_is_open(const struct gateway *gw, uint16_t port)
{
	for (unsigned i = 0; i < gw->cfg.host_ports.n; i++)
		if (gw->cfg.host_ports.port[i] == port)
			return true;
	return false;
}

/* Does the list allow it? Its addresses are another question. */
static unsigned check_list(const struct dial *d, enum allow_verdict *ret_verdict)
{
	const struct allow *allow = &d->gw->allow;

	*ret_verdict = ALLOW_FREE;
	if (!d->address) {
		*ret_verdict = allow_name(allow, d->name, d->port);
		if (*ret_verdict != ALLOW_REFUSED && is_host(d) && !host_is_open(d->gw, d->port))
			return NET_PORT;
		return *ret_verdict == ALLOW_REFUSED ? NET_NAME : NET_OK;
	}
	return allow_literal(allow, d->address, d->port) || allow_everything(allow, d->port)
		       ? NET_OK
		       : NET_ADDRESS;
}

static void on_done(struct dialer_request *rq, int result, uint16_t port, int *fd)
{
	(void)port;
	answer(rq->data, (unsigned)result, steal_fd(fd));
}

static int connect_it(struct dial *d, enum allow_verdict verdict)
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
		.anywhere = cfg->trusted_names && !d->address && verdict == ALLOW_GUARDED,
		.spared = spared,
		.nspared = allow_addresses(&d->gw->allow, d->port, spared),
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

int gateway_dial(struct gateway *gw, const struct net_dial *msg)
{
	char canonical[ALLOW_NAME_MAX + 1];
	enum allow_verdict verdict;
	struct dial *d;
	unsigned reason;

	if (msg->port == 0 || allow_canonical(msg->name, strlen(msg->name), canonical) < 0 ||
	    strcmp(canonical, msg->name) != 0)
		return -EPROTO;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -EPROTO;
	d->gw = gw;
	d->id = msg->header.id;
	d->address = msg->address;
	d->port = msg->port;
	memcpy(d->name, msg->name, sizeof(d->name));
	gw->ndials++;
	TAILQ_INSERT_TAIL(&gw->dials, d, link);
	/* The filter counts a connection when it is made, and several may be on their way. */
	reason = gw->ndials > DIALS_MAX ? NET_BUSY : check_list(d, &verdict);
	if (reason == NET_OK && connect_it(d, verdict) < 0)
		reason = NET_UNREACHABLE;
	if (reason != NET_OK)
		answer(d, reason, -1);
	return 0;
}

void gateway_hang_up(struct gateway *gw, uint32_t id)
{
	struct dial *d;

	TAILQ_FOREACH(d, &gw->dials, link)
		if (d->id == id)
			break;
	if (d)
		dial_free(d);
}

void gateway_recheck(struct gateway *gw)
{
	enum allow_verdict verdict;
	struct dial *d, *next;

	for (d = TAILQ_FIRST(&gw->dials); d; d = next) {
		next = TAILQ_NEXT(d, link);
		if (check_list(d, &verdict) != NET_OK)
			answer(d, NET_WITHDRAWN, -1);
	}
}

void gateway_end_dials(struct gateway *gw)
{
	while (!TAILQ_EMPTY(&gw->dials))
		dial_free(TAILQ_FIRST(&gw->dials));
}
