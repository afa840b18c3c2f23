/* SPDX-License-Identifier: Apache-2.0 */
/* The jail: what a process of a sandbox may see, use and do, and what was really put around it. */
#ifndef XSBX_VM_JAIL_JAIL_H
#define XSBX_VM_JAIL_JAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "seccomp.h"

#define JAIL_MOUNTS_MAX	 64u
#define JAIL_RLIMITS_MAX 16u
#define JAIL_WHAT_MAX	 128u
#define JAIL_FDS_MAX	 32 /* the program's descriptors have numbers below this */

enum jail_mount_kind {
	JAIL_DIR,     /* an empty directory */
	JAIL_LINK,    /* a symbolic link; `source` is where it leads */
	JAIL_FILE,    /* a file; `source` is its content */
	JAIL_RO,      /* `source` of the host, read-only with all that is mounted below it */
	JAIL_RW,      /* the same, writable */
	JAIL_TMPFS,   /* memory; `source` are its options: mode=755,size=1m,nr_inodes=64,uid=1000 */
	JAIL_OVERLAY, /* what is in base below `source`; changes go to upper in work, also below it,
		       * where there has to be memory; base itself goes */
	JAIL_PROC,    /* of the new PID namespace, with parts covered */
	JAIL_DEV,     /* the few devices that programs need, terminals, shared memory, and, with a
		     * `source`, the device of that name */
	JAIL_NKINDS,
};

#define JAIL_OPTIONAL 0x01u /* left out if the host does not have it */
#define JAIL_NOEXEC   0x02u
#define JAIL_OWNED \
	0x04u /* of JAIL_RO, JAIL_RW: with the rights of the spec's `owner` on the host */
#define JAIL_NO_LINKS \
	0x08u /* a symbolic link in the source is an error, or as if it were not there */

/* Mounts are made in their order. Directories on the way to a target are made where the view can be
 * written, which is everywhere but below JAIL_RO and JAIL_RW. */
struct jail_mount {
	uint32_t kind, flags;
	const char *source, *target; /* the target is absolute, in the jail */
};

struct jail_rlimit {
	uint32_t resource, pad;
	uint64_t value; /* lowered to what we are allowed */
};

#define JAIL_LOOPBACK	0x01u /* the network namespace's own interface is up */
#define JAIL_LANDLOCK	0x02u /* confine by Landlock too; then nothing can be mounted any more */
#define JAIL_TWO_IDS	0x04u /* a second id for the program's own children, if the host can */
#define JAIL_DATA_LIMIT 0x08u /* `memory` limits each process where no control group does */
#define JAIL_HOST_NET	0x40u /* the host's network: no namespace of its own for that */
#define JAIL_CARD	0x80u /* a network card, see netns.c; its other end goes to `card_socket` */
#define JAIL_HOST_GROUP 0x10u /* as root: keep the rights of `host_group` on the host, no others */
#define JAIL_NO_SETID	0x20u /* no file can be given a set-id bit, as others could run it */

#define JAIL_MITIGATE \
	0x800u /* the processor does not speculate as it likes, where the kernel can say so */
#define JAIL_AS_OWNER 0x400u /* as root: id 0 inside is `owner`, and 1 and 2 are two of `foreign` */

/*
 * - The program has id 0 inside, and `user` for what it starts, where two ids were asked for and the
 *   host can give them; else it has `user`, and that is the only id there is.
 * - Nothing of the host can be seen but by `mounts`; there is no network but by `flags`.
 * - Strings live as long as the call.
 */
struct jail_spec {
	uint32_t use, flags;
	uint32_t user; /* id inside, both user's and group's */
	uint32_t nmounts, nrlimits;
	uint32_t pids;	      /* most processes, or 0 */
	uint32_t cpu_percent; /* of one processor, or 0 */
	uint32_t host_group;
	uint32_t owner, owner_group; /* of what is JAIL_OWNED */
	int32_t card_socket;	     /* descriptor in the child, closed before the program runs */
	uint32_t foreign;   /* first id on the host of another jail, whose files it reads */
	uint64_t memory;    /* bytes, or 0 */
	uint64_t keep_caps; /* bits; in the jail's own user namespace only */
	const char *host_name;
	const char *keep; /* a directory inside, of which the daemon gets a descriptor; or NULL */
	struct jail_mount mounts[JAIL_MOUNTS_MAX];
	struct jail_rlimit rlimits[JAIL_RLIMITS_MAX];
};

/* ---- what really came of it ---- */

enum jail_layer {
	JAIL_L_USER,
	JAIL_L_MOUNT,
	JAIL_L_PID,
	JAIL_L_IPC,
	JAIL_L_UTS,
	JAIL_L_CGROUP,
	JAIL_L_NET,
	JAIL_L_IDS,  /* `value`: the id on the host */
	JAIL_L_CAPS, /* `value`: those that are left */
	JAIL_L_NNP,
	JAIL_L_SECCOMP,	 /* `value`: filters */
	JAIL_L_LANDLOCK, /* `value`: ABI of the kernel */
	JAIL_L_MEMORY,	 /* `value`: limit; `version` of the control groups */
	JAIL_L_PIDS,
	JAIL_L_CPU,
	JAIL_L_COUNTERS,    /* `value`: timers and queued signals, if limited */
	JAIL_L_SPECULATION, /* `value`: as budget.c has it */
	JAIL_NLAYERS,
};

enum jail_state {
	JAIL_UNASKED,
	JAIL_ABSENT, /* `error` says why */
	JAIL_HOLDS,  /* seen from outside after the program was started */
};

struct jail_finding {
	uint8_t state, version;
	int16_t error; /* errno */
	uint32_t pad;
	uint64_t value;
};

struct jail_report {
	struct jail_finding layer[JAIL_NLAYERS];
};

/* Can each sandbox have ids of the host that nobody else has? */
bool jail_has_private_ids(void);

/* A layer's name, for `isolation`: "namespace.user", "seccomp". */
const char *jail_layer_str(enum jail_layer layer);

/* One finding in words, e.g. "on, ABI 7" or "none: Permission denied". */
void jail_finding_str(const struct jail_report *r, enum jail_layer layer, char *out, size_t size);

/* All layers that were asked for; @prefix stands before their names. */
void jail_report_tell(const struct jail_report *r, const char *prefix,
		      void (*line)(void *data, const char *key, const char *value), void *data);

#endif
