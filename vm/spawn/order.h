/* SPDX-License-Identifier: Apache-2.0 */
/* Orders: all that the daemon can ask the spawner to start. No path, no argument, no variable is in one. */
#ifndef XSBX_VM_SPAWN_ORDER_H
#define XSBX_VM_SPAWN_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/base/digest.h"
#include "vm/base/util.h"

#define ORDER_NAME    (PLAIN_NAME_MAX + 1) /* of a sandbox, an image: bytes, with the terminator */

#define ORDER_VERSION 32u

/* The programs of which xsbxfs consists. */
enum order_program {
	ORDER_QEMU_VERSION, /* prints its version; descriptors: output */
	ORDER_KVM_TRIAL,    /* no program: a trial of the accelerator; likewise */
	ORDER_MACHINE,
	ORDER_SANDBOX,
	ORDER_FILTER,	/* xsbxfs-net; control, card, words */
	ORDER_DIALER,	/* xsbxfs-dial; its socket */
	ORDER_STORE,	/* xsbxfs-store; these three: words */
	ORDER_IMAGE,	/* the builder of images */
	ORDER_PACKAGES, /* what an installation takes of this host */
	ORDER_CHANGES,	/* no program: lists or makes a sandbox's changes; begin, words, changes */
	ORDER_LOCAL, /* the agent without a jail, if the daemon is built for tests; stream, console */
	ORDER_NPROGRAMS,
};

#define ORDER_NETWORK	 0x01u
#define ORDER_KVM	 0x02u
#define ORDER_OWN_KERNEL 0x04u
#define ORDER_PACKED	 0x08u /* a second disk, with packages */
#define ORDER_MACHINE_ALL \
	(ORDER_NETWORK | ORDER_KVM | ORDER_OWN_KERNEL | ORDER_PACKED) /* that it may have */

/* Where a machine's memory is, and how it begins. */
enum machine_mode {
	MACHINE_COLD,	/* memory of its own; boots */
	MACHINE_RECORD, /* memory in a file, written through; boots */
	MACHINE_CLONE,	/* a private copy of that file; begins where the one was that it is from */
	MACHINE_NMODES,
};

/* Descriptors: words, control, agent, console, kernel, initrd, root file system; then, where they
 * are: packages; memory and state, unless it boots and is forgotten; card. */
struct order_machine {
	char name[ORDER_NAME];
	uint32_t mode; /* enum machine_mode */
	uint32_t flags;
	uint32_t memory_mb, cpus;
	uint64_t tsc_khz;
	char version[ORDER_VERSION]; /* of QEMU, the numbers of it: which mistakes it has */
};

/* What a sandbox sees of the host, beside what each sees. */
enum order_view {
	ORDER_VIEW_NONE,
	ORDER_VIEW_INSTALL, /* as one in which packages are installed: `key`, `image`, `language` */
	ORDER_VIEW_PACK,    /* as one in which a file system is made of them: `key` */
	ORDER_VIEW_FIRST,   /* as the first template with paths, see policy.h; and so on */
};

enum order_language { ORDER_PYTHON, ORDER_JAVASCRIPT, ORDER_NLANGUAGES };

/* Descriptors: stream, console; where the card is to be sent. */
struct order_sandbox {
	char name[ORDER_NAME];
	char layer[DIGEST_HEX]; /* its packages, or "" */
	char key[DIGEST_HEX];
	char image[ORDER_NAME]; /* of whose programs it has; "": the host's */
	uint32_t language;
	uint32_t view;
	uint32_t flags; /* ORDER_NETWORK */
	uint32_t memory_mb, cpus, processes;
	uint32_t owner, group; /* whose rights it has to what it can write */
};

struct order_filter {
	uint32_t stream; /* frames come behind their length; else each is a packet */
};

/* What the daemon itself makes, and so may fetch and offer. */
enum order_made { ORDER_SNAPSHOT, ORDER_LAYER, ORDER_NMADE };

struct order_store {
	char key[DIGEST_HEX];
	uint32_t kind; /* enum order_made */
	uint32_t get, anew;
	uint64_t limit, tsc_khz;
};

struct order_image {
	char image[ORDER_NAME];
	uint32_t unpack;
};

struct order_packages {
	char image[ORDER_NAME]; /* "": the host's programs */
	uint32_t language;
};

struct order_changes {
	uint32_t commit;
	uint32_t view; /* of which sandbox, with a `work` */
	uint32_t owner, group;
	uint32_t foreign; /* first id on the host of the sandbox that made them */
};

struct order_local {
	char layer[DIGEST_HEX];
	char place[7]; /* what makes its directory differ from others */
};

struct order {
	uint32_t program; /* enum order_program */
	union {
		struct order_machine machine;
		struct order_sandbox sandbox;
		struct order_filter filter;
		struct order_store store;
		struct order_image image;
		struct order_packages packages;
		struct order_changes changes;
		struct order_local local;
	};
};

/* What the configuration allows at most. */
struct order_limits {
	uint32_t memory_mb, cpus, processes;
	uint32_t nviews; /* of templates */
	bool kvm;	 /* machines may have it */
	bool local;	 /* there is ORDER_LOCAL */
};

/**
 * order_parse() - Read an order that may have come from anybody
 * @bytes: The message
 * @len: Its length
 * @nfds: How many descriptors came with it
 * @most: What may be asked for
 * @ret_order: Result: a program that there is, strings that end and are what they are to be, numbers
 *	       within their limits
 *
 * Nothing is looked at but the arguments.
 *
 * Return: 0, -EBADMSG if it is no order, -EMFILE if descriptors are missing, as where there was no room
 * for them, -EPERM if it asks for more than may be had.
 */
int order_parse(const void *bytes, size_t len, size_t nfds, const struct order_limits *most,
		struct order *ret_order);

/* How many descriptors come with an order. */
size_t order_fds(const struct order *o);

/* Sets a string of an order, cut where it is too long. */
#define order_set(to, from) order_copy(to, sizeof(to), from)
void order_copy(char *to, size_t size, const char *from);

#endif
