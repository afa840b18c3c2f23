/* SPDX-License-Identifier: Apache-2.0 */
/* The cells of the network's two programs: xsbxfs-net, and xsbxfs-dial. */
#ifndef XSBX_VM_NET_JAIL_SPEC_H
#define XSBX_VM_NET_JAIL_SPEC_H

#include <limits.h>

#include "vm/jail/jail.h"
#include "vm/jail/view.h"

#define NET_JAIL_PROGRAM "/program" /* for argv[0] */

struct net_jail {
	struct jail_spec spec;
	char program[PATH_MAX], leads[2][VIEW_LEADS_MAX]; /* what `spec` points to */
};

enum net_program {
	NET_PROGRAM_NET,  /* one for each sandbox: its own network namespace, which stays empty */
	NET_PROGRAM_DIAL, /* one for all: the host's network, and what its resolver reads */
};

/* Where a program is: beside the agent. Return: 0, or -errno where there is none. */
int net_jail_find(const char *agent, enum net_program program, char ret_path[PATH_MAX]);

/* Describes the cell of a program. Return: 0, or -errno where there is no such program. */
int net_jail(const char *agent, enum net_program program, struct net_jail *ret_jail);

/* Tells files of the resolver from other versions of them: a number that changes with them. */
uint64_t net_jail_resolver_version(void);

#endif
