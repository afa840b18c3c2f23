/* SPDX-License-Identifier: Apache-2.0 */
/* The jail: what a sandbox's process may see, use and do, and which layers are really in effect. */
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
#define JAIL_COPY_MAX	 (1u << 20)
#define JAIL_FDS_MAX	 32 /* the program's descriptors have numbers below this */

enum jail_mount_kind {
	JAIL_DIR,   /* an empty directory */
	JAIL_LINK,  /* a symbolic link; `source` is its target */
	JAIL_FILE,  /* a file; `source` is its content */
	JAIL_RO,    /* `source` of the host, read-only, including mounts below it */
	JAIL_RW,    /* the same, writable */
	JAIL_TMPFS, /* memory; `source` has its options: mode=755,size=1m,nr_inodes=64,uid=1000 */
	JAIL_COPY, /* `source`, in memory of the jail, is a copy of the file at `target`, and covers it; left out, if there
		       * is no such file, or it has more than JAIL_COPY_MAX bytes */
	JAIL_OVERLAY, /* the content of base below `source`; changes go to upper in work, also below
		       * it, which must be in memory; base itself is removed */
	JAIL_PROC,    /* of the new PID namespace, partly covered */
	JAIL_DEV,     /* the few devices that programs need, terminals, shared memory, and, with a
		     * `source`, the device with that name */
	JAIL_NKINDS,
};

#define JAIL_OPTIONAL 0x01u /* left out if the host does not have it */
#define JAIL_NOEXEC   0x02u
#define JAIL_OWNED    0x04u /* JAIL_RO, JAIL_RW: with the host permissions of the spec's `owner` */
#define JAIL_NO_LINKS \
	0x08u /* a symbolic link in the source is an error, or the source counts as missing */

/* Mounts are made in order. Missing parent directories of a target are made where the view is
 * writable, which is everywhere except below JAIL_RO and JAIL_RW. */
struct jail_mount {
	uint32_t kind, flags;
	const char *source, *target; /* the target is absolute, in the jail */
};

struct jail_rlimit {
	uint32_t resource, pad;
	uint64_t value; /* lowered to our own limit */
};

#define JAIL_LOOPBACK	0x01u /* bring up the loopback interface of the network namespace */
#define JAIL_LANDLOCK	0x02u /* confine with Landlock as well; afterwards nothing can be mounted */
#define JAIL_TWO_IDS	0x04u /* a second id for the program's children, if the host supports it */
#define JAIL_DATA_LIMIT 0x08u /* `memory` limits each process if no control group does */
#define JAIL_HOST_NET	0x40u /* the host's network: no separate network namespace */
#define JAIL_CARD	0x80u /* a network card, see netns.c; its other end goes to `card_socket` */
#define JAIL_HOST_GROUP 0x10u /* as root: keep only the permissions of `host_group` on the host */
#define JAIL_NO_SETID	0x20u /* set-id bits cannot be set on files, which others could run */

#define JAIL_MITIGATE \
	0x800u /* restrict the processor's speculation, where the kernel supports it */
#define JAIL_AS_OWNER 0x400u /* as root: id 0 inside is `owner`, and 1 and 2 are two of `foreign` */

/*
 * - The program has id 0 inside, and `user` for its children, if two ids were requested and the
 *   host supports it; else it has `user`, which is the only id.
 * - The host is visible only through `mounts`; there is no network except as set in `flags`.
 * - Strings have to be valid during the call.
 */
struct jail_spec {
	uint32_t use, flags;
	uint32_t user; /* id inside, of both user and group */
	uint32_t nmounts, nrlimits;
	uint32_t pids;	      /* limit of processes, or 0 */
	uint32_t cpu_percent; /* of one processor, or 0 */
	uint32_t host_group;
	uint32_t owner, owner_group; /* of mounts that are JAIL_OWNED */
	int32_t card_socket;	     /* descriptor in the child, closed before the program runs */
	uint32_t foreign;	     /* first host id of another jail, whose files it reads */
	uint64_t memory;	     /* bytes, or 0 */
	uint64_t keep_caps;	     /* bits; only in the jail's user namespace */
	const char *host_name;
	const char *keep; /* a directory inside for which the daemon gets a descriptor; or NULL */
	struct jail_mount mounts[JAIL_MOUNTS_MAX];
	struct jail_rlimit rlimits[JAIL_RLIMITS_MAX];
};

/* ---- which layers are in effect ---- */

enum jail_layer {
	JAIL_L_USER,
	JAIL_L_MOUNT,
	JAIL_L_PID,
	JAIL_L_IPC,
	JAIL_L_UTS,
	JAIL_L_CGROUP,
	JAIL_L_NET,
	JAIL_L_IDS,  /* `value`: the id on the host */
	JAIL_L_CAPS, /* `value`: the remaining ones */
	JAIL_L_NNP,
	JAIL_L_SECCOMP,	 /* `value`: filters */
	JAIL_L_LANDLOCK, /* `value`: ABI of the kernel */
	JAIL_L_MEMORY,	 /* `value`: limit; `version` of the control groups */
	JAIL_L_PIDS,
	JAIL_L_CPU,
	JAIL_L_COUNTERS,    /* `value`: timers and queued signals, if limited */
	JAIL_L_SPECULATION, /* `value`: see budget.c */
	JAIL_NLAYERS,
};

enum jail_state {
	JAIL_UNASKED,
	JAIL_ABSENT, /* `error` says why */
	JAIL_HOLDS,  /* verified from outside after the program was started */
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

/* Can each sandbox have host ids of its own? */
bool jail_has_private_ids(void);

/* A layer's name, for `isolation`: "namespace.user", "seccomp". */
const char *jail_layer_str(enum jail_layer layer);

/* One finding in words, e.g. "on, ABI 7" or "none: Permission denied". */
void jail_finding_str(const struct jail_report *r, enum jail_layer layer, char *out, size_t size);

/* Calls @line for all requested layers; @prefix is put before their names. */
void jail_report_tell(const struct jail_report *r, const char *prefix,
		      void (*line)(void *data, const char *key, const char *value), void *data);

#endif
