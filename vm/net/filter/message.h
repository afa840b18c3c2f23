/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon and xsbxfs-net say to each other. */
#ifndef XSBX_VM_NET_FILTER_MESSAGE_H
#define XSBX_VM_NET_FILTER_MESSAGE_H

#include <assert.h>
#include <stdint.h>

#include "vm/base/allow.h"

/*
 * One message is one packet of a SOCK_SEQPACKET socket pair: a header, and what follows it by type.
 * Both ends are built from the same source and run on the same machine, so these are plain structs.
 * The daemon believes nothing of what it reads: a message of a wrong size or type ends the helper.
 *
 *	to the helper	NET_ALLOW	a new list; its text follows the header
 *			NET_FORWARD	`id` is the guest's port; a listening socket comes along
 *					(if there is room for it, as in NET_DIALED)
 *			NET_UNFORWARD	`id` is the guest's port; connections stay
 *			NET_DIALED	the answer to NET_DIAL of that `id`; with NET_OK, a socket
 *			NET_ASK_STATS
 *	to the daemon	NET_READY	the helper is confined and serves; sent once
 *			NET_DIAL	please connect; `id` is new
 *			NET_HANG_UP	nobody waits for that `id` any more
 *			NET_DENIED	something was refused
 *			NET_STATS
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
	char name[ALLOW_NAME_MAX + 1]; /* the address as text if it is by address */
};

struct net_denied {
	struct net_header header;
	int64_t time_ms; /* since 1970 */
	uint32_t lost;	 /* as many before this one were not reported, for there were too many */
	uint16_t port;	 /* 0: none */
	uint16_t reason; /* enum net_reason */
	char name[ALLOW_NAME_MAX + 1]; /* or address; printable */
};

struct net_stats {
	struct net_header header;
	uint64_t bytes_in, bytes_out; /* as the guest sees it */
	uint64_t connections, denied;
	uint32_t open, names;
};

static_assert(sizeof(struct net_dialed) == 12, "no holes");
static_assert(sizeof(struct net_dial) == 16 + ALLOW_NAME_MAX + 3, "no holes but at the end");

#endif
