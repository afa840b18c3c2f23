/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's environment: what its set-up has found out for the rest of the program. */
#ifndef XSBX_AGENT_CORE_GUEST_ENV_H
#define XSBX_AGENT_CORE_GUEST_ENV_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define GUEST_ENV_WRITE_MAX 32
#define GUEST_ENV_PACKAGES  "/run/xsbx/packages" /* in a guest and in a jail */

/* Compressed memory as swap: files that PID 1 opens before it loses access to them; -1 and 0 if not
 * available. */
struct swap {
	int stat_fd;	 /* memory taken by the compressed pages */
	uint64_t size;	 /* swap space in bytes */
	uint64_t limit;	 /* memory limit for compressed pages, in bytes */
	int pressure_fd; /* becomes ready when tasks stall on memory for much of the time */
};

#define SWAP_NONE ((struct swap){.stat_fd = -1, .pressure_fd = -1})

/*
 * Filled in by init.c as PID 1 of a guest, and by main.c for --jail and --local. The protocol server depends
 * only on this, not on mounts or machines.
 */
struct guest_env {
	const char *work;     /* working directory of user code, absolute */
	const char *home;     /* its HOME */
	const char *lib;      /* interpreter drivers */
	const char *packages; /* packages installed for its interpreter, read-only, or NULL */
	bool jail;	      /* PID 1 of a PID namespace: controls host name, quotas, processes */
	bool guest;	      /* controls the machine: clock, host name, entropy, quotas */
	uint64_t memory_kib;  /* memory limit of a jail */
	/* In a jail: host paths that user code may change. */
	const char *write[GUEST_ENV_WRITE_MAX];
	size_t nwrite;
	int ruleset;	   /* what Landlock lets user code do, or -1 */
	const char *store; /* tmpfs that receives changes to `work`, or NULL: `work` itself */
	bool root;	   /* jobs may run as root, who may change the system; only in a guest */
	bool drop;	   /* user code runs as uid and gid, without capabilities */
	uid_t uid;
	gid_t gid;
	int random_fd; /* /dev/random in a guest, else -1 */
	int kmsg_fd;   /* /dev/kmsg in a guest, else -1 */
	struct swap swap;
};

#endif
