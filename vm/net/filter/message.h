/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the daemon and xsbxfs-net. */
#ifndef XSBX_VM_NET_FILTER_MESSAGE_H
#define XSBX_VM_NET_FILTER_MESSAGE_H

#include <assert.h>
#include <stdint.h>

#include "vm/base/allow.h"

/*
 * Each message is a packet on a SOCK_SEQPACKET socket pair: a header, followed by data that depends on the
 * type. Both sides are built from the same source and run on the same machine, so these are plain structs.
 * The daemon does not trust what it reads: a message with a wrong size or type ends the helper.
 *
 *	to the helper	NET_ALLOW	a new list; its text follows the header
 *			NET_FORWARD	`id` is the guest's port; with a listening socket
 *					(missing if out of descriptors, as in NET_DIALED)
 *			NET_UNFORWARD	`id` is the guest's port; connections stay
 *			NET_DIALED	the answer to NET_DIAL with that `id`; with a socket if NET_OK
 *			NET_ASK_STATS
 *			NET_GO		the helper may use the card: it is known that it has it
 *			NET_RESYNC	another daemon, of which what NET_GO says is true as well; the ports of
 *					the guest that it forwards follow the header: connections to others
 *					are not accepted any more. Its list, and a listening socket for each,
 *					come behind it
 *	to the daemon	NET_READY	the helper is confined and running; sent once
 *			NET_RESYNCED	the answer to NET_RESYNC with that `id`: each NET_DIAL that was not answered comes again,
 *					behind it
 *			NET_DIAL	requests a connection; `id` is new
 *			NET_HANG_UP	cancels the NET_DIAL with that `id`
 *			NET_DENIED	a connection or lookup was refused; `id` counts them, from 1, as far as they
 *					are told
 *			NET_STATS
 *			NET_CALLED	somebody has connected to the guest's port `id`: a machine that
 *					stands still is to go on
 */
enum net_type {
	NET_ALLOW = 1,
	NET_FORWARD,
	NET_UNFORWARD,
	NET_DIALED,
	NET_ASK_STATS,
	NET_READY,
	NET_DIAL,
	NET_HANG_UP,
	NET_DENIED,
	NET_STATS,
	NET_CALLED,
	NET_GO,
	NET_RESYNC,
	NET_RESYNCED,
};

#define NET_FORWARDS_MAX 10
#define NET_MESSAGE_MAX	 (sizeof(struct net_header) + ALLOW_TEXT_MAX)

struct net_header {
	uint32_t type, id;
};

struct net_dialed {
	struct net_header header;
	uint32_t reason; /* enum net_reason */
};

struct net_dial {
	struct net_header header;
	uint32_t address; /* in network order; 0: by name */
	uint16_t port, unused;
	char name[ALLOW_NAME_MAX + 1]; /* the address as text if there is no name */
};

struct net_denied {
	struct net_header header;
	int64_t time_ms; /* since 1970 */
	uint32_t lost;	 /* number of earlier reports that were dropped: there were too many */
	uint16_t port;	 /* 0: none */
	uint16_t reason; /* enum net_reason */
	char name[ALLOW_NAME_MAX + 1]; /* or address; printable */
};

struct net_stats {
	struct net_header header;
	uint64_t bytes_in, bytes_out; /* from the guest's point of view */
	uint64_t connections, denied, open;
};

struct net_resync {
	struct net_header header;
	uint16_t port[NET_FORWARDS_MAX]; /* 0: none */
};

static_assert(sizeof(struct net_resync) == 28, "no holes");
static_assert(sizeof(struct net_dialed) == 12, "no holes");
static_assert(sizeof(struct net_stats) == 48, "no holes");
static_assert(sizeof(struct net_dial) == 16 + ALLOW_NAME_MAX + 3, "no holes but at the end");

#endif
