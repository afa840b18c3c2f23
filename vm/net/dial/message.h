/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the daemon and xsbxfs-dial. */
#ifndef XSBX_VM_NET_DIAL_MESSAGE_H
#define XSBX_VM_NET_DIAL_MESSAGE_H

#include <assert.h>
#include <stdint.h>

#include "vm/base/allow.h"

/*
 * Each message is a packet on a SOCK_SEQPACKET socket pair. Both sides are built from the same source
 * and run on the same machine, so these are plain structs.
 *
 *	to the dialer	DIAL_CONNECT	make a connection
 *			DIAL_LISTEN	make a socket that listens on 127.0.0.1
 *			DIAL_CANCEL	cancel the DIAL_CONNECT with that `id`
 *	from it		DIAL_DONE	the answer to one of the first two, with a socket on success
 */
enum dial_type {
	DIAL_CONNECT = 1,
	DIAL_LISTEN,
	DIAL_CANCEL,
	DIAL_DONE,
};

struct dial_header {
	uint32_t type, id;
};

/* Followed by permitted non-public addresses: 32-bit numbers in network order, up to the end of the
 * packet. */
struct dial_connect {
	struct dial_header header;
	uint32_t owner;	  /* not 0; identifies the sandbox, so that none can block the others */
	uint32_t user;	  /* its user; likewise */
	uint32_t address; /* in network order; 0: by name */
	uint16_t port;
	uint16_t anywhere; /* not 0: whatever the name resolves to */
	char name[ALLOW_NAME_MAX + 1];
	char pad[2];
};

struct dial_listen {
	struct dial_header header;
	uint16_t port, pad; /* 0: any free port */
};

struct dial_done {
	struct dial_header header;
	int32_t result;	    /* DIAL_CONNECT: enum net_reason; DIAL_LISTEN: 0 or -errno */
	uint16_t port, pad; /* DIAL_LISTEN: the actual port */
};

static_assert(sizeof(struct dial_connect) == 24 + ALLOW_NAME_MAX + 3, "no holes");
static_assert(sizeof(struct dial_done) == 16, "no holes");

#endif
