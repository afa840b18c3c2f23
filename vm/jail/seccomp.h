/* SPDX-License-Identifier: Apache-2.0 */
/* Seccomp filters: the system calls that each program may make. */
#ifndef XSBX_VM_JAIL_SECCOMP_H
#define XSBX_VM_JAIL_SECCOMP_H

#include <stdbool.h>

/* The kind of a program, which determines the system calls that it may make. */
enum jail_use {
	JAIL_SANDBOX, /* the agent and user code */
	JAIL_QEMU,
	JAIL_NET,    /* xsbxfs-net */
	JAIL_DIAL,   /* xsbxfs-dial, which makes connections in the host's network */
	JAIL_DAEMON, /* the daemon itself, which has a filter but no jail; see confine.h */
	JAIL_CHANGES, /* lists a sandbox's changes, see task/overlay_diff.c: file system calls only */
	JAIL_STORE,   /* xsbxfs-store, which confines itself; see vm/store/confine.c */
	JAIL_HOLDER, /* has descriptors, and gives them to who is next; see spawn/holder.h */
	JAIL_NUSES,
};

/* Makes the filter of a use, unless it is there: then children inherit it. @no_setid: and one that
 * forbids set-id bits. Return: 0 or -errno. */
int jail_seccomp_prepare(enum jail_use use, bool no_setid);

/* Puts this thread under them, for good. Needs no_new_privs or the capability. Return: 0 or -errno. */
int jail_seccomp_install(enum jail_use use, bool no_setid);

#endif
