/* SPDX-License-Identifier: Apache-2.0 */
/* Jail specs of the two network programs, xsbxfs-net and xsbxfs-dial. */
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
	NET_PROGRAM_NET,  /* one for each sandbox: in its own, empty network namespace */
	NET_PROGRAM_DIAL, /* one for all: in the host's network, with the resolver's files */
};

/* Finds a program, in the agent's directory. Return: 0, or -errno if it is missing. */
int net_jail_find(const char *agent, enum net_program program, char ret_path[PATH_MAX]);

/* Makes the jail spec of a program. Return: 0, or -errno if the program is missing. */
int net_jail(const char *agent, enum net_program program, struct net_jail *ret_jail);

/* Return: a number that changes when the resolver's files change. */
uint64_t net_jail_resolver_version(void);

#endif
