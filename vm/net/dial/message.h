/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon and xsbxfs-dial say to each other. */
#ifndef XSBX_VM_NET_DIAL_MESSAGE_H
#define XSBX_VM_NET_DIAL_MESSAGE_H

#include <assert.h>
#include <stdint.h>

#include "vm/base/allow.h"

/*
 * One message is one packet of a SOCK_SEQPACKET socket pair. Both ends are built from the same source
 * and run on the same machine, so these are plain structs.
 *
 *	to the dialer	DIAL_CONNECT	make a connection
 *			DIAL_LISTEN	make a socket that listens at 127.0.0.1
 *			DIAL_CANCEL	nobody waits for the DIAL_CONNECT of that `id` any more
 *	from it		DIAL_DONE	the answer to one of the first two, with a socket if it is good
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

/* Behind it come the addresses that may be connected to although they are not public: as many 32-bit
 * numbers in network order as the packet has room for. */
struct dial_connect {
	struct dial_header header;
	uint32_t owner;	  /* not 0; for which sandbox: so that none keeps all others waiting */
	uint32_t user;	  /* whose that is; the same for users */
	uint32_t address; /* in network order; 0: by name */
	uint16_t port;
	uint16_t anywhere; /* not 0: wherever the name leads */
	char name[ALLOW_NAME_MAX + 1];
	char pad[2];
};

struct dial_listen {
	struct dial_header header;
	uint16_t port, pad; /* 0: any that is free */
};

struct dial_done {
	struct dial_header header;
	int32_t result;	    /* DIAL_CONNECT: enum net_reason; DIAL_LISTEN: 0 or -errno */
	uint16_t port, pad; /* DIAL_LISTEN: the one it is */
};

static_assert(sizeof(struct dial_connect) == 24 + ALLOW_NAME_MAX + 3, "no holes");
static_assert(sizeof(struct dial_done) == 16, "no holes");

#endif
