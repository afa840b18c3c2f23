/* SPDX-License-Identifier: Apache-2.0 */
/* Where the agent finds itself: what its set-up left for the rest of the program to know. */
#ifndef XSBX_AGENT_CORE_GUEST_ENV_H
#define XSBX_AGENT_CORE_GUEST_ENV_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define GUEST_ENV_WRITE_MAX 32
#define GUEST_ENV_PACKAGES  "/run/xsbx/packages" /* in a guest and in a jail */

/* Compressed memory as swap: what PID 1 opens while everything is still in reach; -1 and 0 if there is no such
 * thing. */
struct swap {
	int stat_fd;	 /* what the compressed memory takes */
	uint64_t size;	 /* what may be swapped out, in bytes */
	uint64_t limit;	 /* the most it may take, in bytes */
	int pressure_fd; /* becomes ready when tasks wait for memory much of the time */
};

#define SWAP_NONE ((struct swap){.stat_fd = -1, .pressure_fd = -1})

/*
 * init.c fills this in as PID 1 of a guest, main.c for --jail and --local. The protocol server asks it and
 * knows nothing of mounts and machines.
 */
struct guest_env {
	const char *work;     /* working directory of user code, absolute */
	const char *home;     /* its HOME */
	const char *lib;      /* interpreter drivers */
	const char *packages; /* what was installed for its interpreter, read-only; NULL: nothing */
	bool jail;	      /* PID 1 of a PID namespace: host name, quotas, processes are ours */
	bool guest;	      /* the machine is ours: clock, host name, entropy, quotas */
	uint64_t memory_kib;  /* of a jail: its limit */
	const char
		*write[GUEST_ENV_WRITE_MAX]; /* of a jail: what of the host user code may change */
	size_t nwrite;
	const char
		*store; /* memory that what is changed in `work` goes to, or NULL: `work` itself */
	bool drop;	/* user code runs as uid and gid, without capabilities */
	uid_t uid;
	gid_t gid;
	int random_fd; /* /dev/random in a guest, else -1 */
	int kmsg_fd;   /* /dev/kmsg in a guest, else -1 */
	struct swap swap;
};

#endif
