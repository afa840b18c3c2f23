/* SPDX-License-Identifier: Apache-2.0 */
/* Which system calls a program may make. */
#ifndef XSBX_VM_JAIL_SECCOMP_H
#define XSBX_VM_JAIL_SECCOMP_H

#include <stdbool.h>

/* What a program is: it decides which system calls it may make. */
enum jail_use {
	JAIL_SANDBOX, /* the agent and user code */
	JAIL_QEMU,
	JAIL_NET,    /* the network's helper */
	JAIL_DIAL,   /* the one who makes connections; its network is the host's */
	JAIL_DAEMON, /* the daemon itself, which has no jail, but such a filter; see confine.h */
	JAIL_CHANGES, /* who looks through a sandbox's changes, see spawn/overlay_diff.c: files, and nothing else */
	JAIL_STORE, /* xsbxfs-store, which confines itself; see vm/store/confine.c */
	JAIL_NUSES,
};

/* Makes the filter of a use, unless it is there: then children inherit it. @no_setid: and one that forbids set-id bits.
 * Return: 0 or -errno. */
int jail_seccomp_prepare(enum jail_use use, bool no_setid);

/* Puts this thread under them, for good. Needs no_new_privs or the capability. Return: 0 or -errno. */
int jail_seccomp_install(enum jail_use use, bool no_setid);

#endif
