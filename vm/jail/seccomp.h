/* SPDX-License-Identifier: Apache-2.0 */
/* Which system calls a program may make. */
#ifndef XSBX_VM_JAIL_SECCOMP_H
#define XSBX_VM_JAIL_SECCOMP_H

struct sock_fprog;

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

/* The filter of a use, made at the first call; it stays ours. Return: 0 or -errno. */
int jail_seccomp_filter(enum jail_use use, struct sock_fprog *ret_prog);

/* A filter to be added to one of these: no set-id bits. Return: 0 or -errno. */
int jail_seccomp_no_setid(struct sock_fprog *ret_prog);

#endif
