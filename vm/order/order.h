/* SPDX-License-Identifier: Apache-2.0 */
/* Orders: everything the daemon can ask the spawner to start. They contain no paths, arguments or
 * variables. */
#ifndef XSBX_VM_ORDER_ORDER_H
#define XSBX_VM_ORDER_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/base/digest.h"
#include "vm/base/secret_use.h"
#include "vm/base/util.h"

#define ORDER_NAME    (PLAIN_NAME_MAX + 1) /* size of a sandbox or image name, with the terminator */

#define ORDER_VERSION 32u

/* The programs that can be started. */
enum order_program {
	ORDER_QEMU_VERSION, /* prints its version; descriptors: output */
	ORDER_KVM_TRIAL,    /* no program: tests the accelerator; likewise */
	ORDER_MACHINE,
	ORDER_SANDBOX,
	ORDER_FILTER,	/* xsbxfs-net; control, card, words */
	ORDER_DIALER,	/* xsbxfs-dial; its socket */
	ORDER_STORE,	/* xsbxfs-store; these three: words */
	ORDER_IMAGE,	/* the builder of images */
	ORDER_PACKAGES, /* collects the host's settings for an installation */
	ORDER_KEY,	/* the configuration's key_command; output */
	ORDER_CHANGES, /* no program: lists or commits a sandbox's changes; begin, words, changes */
	ORDER_POINT, /* no program: copies a machine's memory; talk, stream, devices; with `whole`, base: see ram_copy.h */
	ORDER_LOCAL, /* the agent without a jail, in a daemon built for tests; stream, console */
	ORDER_TRACE, /* xsbxfs-trace; spans, words */
	ORDER_SECRET, /* no program: fetches a value, see secret_source.h; request, value, words */
	ORDER_NPROGRAMS,
};

#define ORDER_NETWORK	 0x01u
#define ORDER_KVM	 0x02u
#define ORDER_OWN_KERNEL 0x04u
#define ORDER_PACKED	 0x08u /* a second disk, with packages */
#define ORDER_ROOT	 0x10u /* its root file system can be changed */
#define ORDER_MACHINE_ALL \
	(ORDER_NETWORK | ORDER_KVM | ORDER_OWN_KERNEL | ORDER_PACKED | ORDER_ROOT) /* valid flags */

/* Where a machine's memory is, and how it starts. */
enum machine_mode {
	MACHINE_COLD,	/* anonymous memory; boots */
	MACHINE_RECORD, /* memory in a file, shared mapping; boots */
	MACHINE_CLONE,	/* private mapping of that file; continues from the saved state */
	MACHINE_NMODES,
};

/* Descriptors: words, control, agent, console, kernel, initrd, root file system; then, if used:
 * packages; memory and state, unless it is MACHINE_COLD; card. */
struct order_machine {
	char name[ORDER_NAME];
	uint32_t mode; /* enum machine_mode */
	uint32_t flags;
	uint32_t memory_mb, cpus;
	uint64_t tsc_khz;
	char version[ORDER_VERSION]; /* of QEMU, numbers only: selects workarounds */
};

/* What a sandbox sees of the host, besides what all of them see. */
enum order_view {
	ORDER_VIEW_NONE,
	ORDER_VIEW_INSTALL, /* for installing packages: `key`, `image`, `language` */
	ORDER_VIEW_PACK,    /* for packing them into a file system: `key` */
	ORDER_VIEW_FIRST,   /* of the first template with paths, see policy.h; and so on */
};

enum order_language { ORDER_PYTHON, ORDER_JAVASCRIPT, ORDER_NLANGUAGES };

/* Descriptors: stream, console; a socket to send the card to. */
struct order_sandbox {
	char name[ORDER_NAME];
	char layer[DIGEST_HEX]; /* its packages, or "" */
	char key[DIGEST_HEX];
	char image[ORDER_NAME]; /* whose programs it uses; "": the host's */
	uint32_t language;
	uint32_t view;
	uint32_t flags; /* ORDER_NETWORK */
	uint32_t memory_mb, cpus, processes;
	uint32_t owner, group; /* whose permissions it has on paths that it can write */
};

struct order_filter {
	uint32_t stream; /* frames are prefixed with their length; else each is a packet */
};

/* Kinds of objects that the daemon makes, and may get from and put into the store. */
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
	uint32_t foreign; /* first host id of the sandbox that made them */
};

struct order_point {
	uint32_t machine; /* id of the request that has started it */
	uint32_t memory_mb;
	uint32_t whole;
	uint64_t address; /* where QEMU has it */
};

struct order_secret {
	char name[SECRET_NAME_MAX + 4];
	uint32_t owner, group; /* of the session */
};

struct order_local {
	char layer[DIGEST_HEX];
	char place[7]; /* unique part of its directory's name */
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
		struct order_point point;
		struct order_local local;
		struct order_secret secret;
	};
};

/* Limits from the configuration. */
struct order_limits {
	uint32_t memory_mb, cpus, processes;
	uint32_t nviews; /* of templates */
	bool kvm;	 /* machines may use it */
	bool local;	 /* ORDER_LOCAL is allowed */
};

/**
 * order_parse() - Parse and validate an untrusted order
 * @bytes: The message
 * @len: Its length
 * @nfds: How many descriptors came with it
 * @most: Limits
 * @ret_order: Result: the program is known, strings are terminated and valid, numbers are within
 *	       their limits
 *
 * Depends on nothing but the arguments.
 *
 * Return: 0, -EBADMSG if it is not an order, -EMFILE if descriptors are missing, for example
 * because of the open files limit, -EPERM if it exceeds the limits.
 */
int order_parse(const void *bytes, size_t len, size_t nfds, const struct order_limits *most,
		struct order *ret_order);

/* How many descriptors belong to an order. */
size_t order_fds(const struct order *o);

/* Sets a string of an order, truncated if it is too long. */
#define order_set(to, from) order_copy(to, sizeof(to), from)
void order_copy(char *to, size_t size, const char *from);

#endif
