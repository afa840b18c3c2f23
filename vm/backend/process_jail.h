/* SPDX-License-Identifier: Apache-2.0 */
/* The jail of a process sandbox: what code in it can see. */
#ifndef XSBX_VM_BACKEND_PROCESS_JAIL_H
#define XSBX_VM_BACKEND_PROCESS_JAIL_H

#include <limits.h>

#include "vm/jail/jail.h"
#include "vm/jail/view.h"

#define PROCESS_JAIL_AGENT	 "/run/xsbx/agent" /* for argv[0] */
#define PROCESS_JAIL_STORE	 "/run/xsbx/work"  /* where changes to `work` go */
#define PROCESS_JAIL_BIN	 "/run/xsbx/bin"
#define PROCESS_JAIL_MORE_MAX	 16
#define PROCESS_JAIL_OVERHEAD_MB 4 /* the agent, page tables */

struct vm_path;

/* What differs between jails. Strings must live as long as the result. */
struct process_cell {
	const char *name;
	unsigned memory_mb, cpus;
	unsigned processes; /* of user code; 0: a default */
	const char *agent;  /* program */
	const char *tree;   /* files of an image, or "" for the host's */
	const char *layer;  /* directory of packages, or NULL */
	const char *ca;	    /* file of certificates, or NULL */
	const struct vm_path *paths;
	size_t npaths;
	const char *work; /* initial contents of the working directory, or NULL */
	uid_t owner;	  /* whose permissions it has there, and on paths that it can write */
	gid_t group;
	uint64_t file_bytes; /* largest file size; 0: no limit */
	int card_socket;     /* socket to send its network card to; 0: it has none */
};

struct process_jail {
	struct jail_spec spec;
	/* Storage that `spec` points to. */
	char agent[PATH_MAX], drivers[PATH_MAX], bun[PATH_MAX], name[65];
	char home[96], tmp[96];
	char tree[PATH_MAX];
	char usr[PATH_MAX + 8], etc[10][PATH_MAX + 32];
	struct {
		char source[PATH_MAX + 64], target[64];
	} more[PROCESS_JAIL_MORE_MAX]; /* directories at the top of an image */
	char top[5][VIEW_LEADS_MAX];   /* targets of the links /bin, /lib and so on */
};

/* Describes the jail. Return: 0, or -errno if there is no agent. */
int process_jail(const struct process_cell *what, struct process_jail *ret_jail);

/* What to do so that a jail can have a network card, if opening /dev/net/tun has failed with @err. */
const char *process_jail_tun_fix(int err);

#endif
