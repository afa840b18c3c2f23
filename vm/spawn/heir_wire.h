/* SPDX-License-Identifier: Apache-2.0 */
/* What spawners and those who want to take a mount over say to each other, of whatever version they
 * are. */
#ifndef XSBX_VM_SPAWN_HEIR_WIRE_H
#define XSBX_VM_SPAWN_HEIR_WIRE_H

#include <stdint.h>
#include <sys/un.h>

/* These structs are for ever: another version reads them, and finds out by them that it is another
 * version. */

#define HEIR_SOCKET    "takeover" /* in the runtime directory: SEQPACKET */
#define HEIR_MAGIC     0x6578d501u
#define HEIR_WORDS_MAX 512u

/* The version of orders, notes and requests (order.h, wire.h). To be counted up with each change of
 * these: a spawner lives as long as its mount, and daemons of other versions may follow the
 * first. */
#define SPAWN_VERSION  6u

/* Descriptors of an heir, in whose command line --heir is the first. */
enum heir_fd {
	HEIR_FD_SPAWNER = 3,
	HEIR_FD_CONNECTION, /* of the mount: /dev/fuse */
	HEIR_FD_DAEMON,	    /* to the daemon that serves; of one that has died: to the holder */
	HEIR_FD_ESTATE,	    /* only of one that has died */
	HEIR_FD_CONF,	    /* likewise: the configuration, which it could not change */
	HEIR_FD_END,
};

#define HEIR_OPTION	   "--heir"
/* Of the program that has died, for itself; these may change. Behind them a colon, and the signal
 * that it was killed by, or 0. */
#define HEIR_OPTION_REVIVE "--revive"
#define HEIR_OPTION_LAST   "--revive-last" /* likewise, but only to end in good order */

/* From who asks, with the program in SCM_RIGHTS. */
struct heir_ask {
	uint32_t magic;
};

/* Where the socket is, in this runtime directory: by its descriptor, for paths may be too long. */
struct sockaddr_un heir_address(int dir);

/* The answer. */
struct heir_answer {
	uint32_t magic;
	int32_t pid; /* of the daemon, or 0: there was no change, because of: */
	char words[HEIR_WORDS_MAX];
};

/* The first that an heir hears of the spawner. */
struct heir_welcome {
	uint32_t magic, version;
	uint32_t last_id;  /* requests of the heir begin behind it */
	uint32_t instance; /* see jail_instance_id() */
};

#endif
