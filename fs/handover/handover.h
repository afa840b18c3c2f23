/* SPDX-License-Identifier: Apache-2.0 */
/* The mount as records, for a daemon that takes it over. */
#ifndef XSBX_FS_HANDOVER_HANDOVER_H
#define XSBX_FS_HANDOVER_HANDOVER_H

#include <stdint.h>

#include "vm/base/buf.h"
#include "vm/base/fdbag.h"
#include "vm/base/problem.h"
#include "vm/base/record.h"

struct fs;

/*
 * Theory of operation
 * -------------------
 * All that the kernel or a program on this host may refer to has to be the same in the next daemon: inode numbers with their
 * slots and generations, handles with theirs, what was read of logs, who holds which lock. What a session is, fs/keep/ writes;
 * here is what holds sessions and what is held of them, and whatever there is of the mount itself. What waits is not written:
 * the requests are, and are handled again, see fs/fuse/devfuse.h.
 *
 * The one that writes changes nothing but what nobody sees, and goes on if it comes to nothing. The one that reads believes
 * nothing: a daemon may have been taken over by a guest, and its heir is not to be.
 */

/* Kinds of records, beside enum keep_kind. Never reuse. */
enum handover_kind {
	HANDOVER_MOUNT = 64, /* the first */
	HANDOVER_HANDLES,    /* generations of free ones */
	HANDOVER_HANDLE,     /* key: its id */
	HANDOVER_LOCKS,
	HANDOVER_EVENTS,
	HANDOVER_COMPLAINTS,
	HANDOVER_FILES, /* key: slot << 32 | generation of the session, as of those that follow */
	HANDOVER_SANDBOX,
	HANDOVER_SAVED,	      /* key: its number among those of the mount */
	HANDOVER_CONNECTION,  /* see devfuse_put() */
	HANDOVER_PROCESS,     /* what the process has, and not the mount; see fs/succession.c */
	HANDOVER_END,	      /* the last: nothing was cut off */
	HANDOVER_SLOTS,	      /* free ones of sessions, behind all sessions */
	HANDOVER_WORKDIR,     /* changes of a session in its copy of a directory of this host */
	HANDOVER_CALLS = 100, /* key as of HANDOVER_FILES */
};

/**
 * handover_put() - Append all records of the mount
 * @fs: Mount
 * @out: Records
 * @fds: Descriptors that they speak of
 * @ret_why: Why not
 *
 * Return: 0; -EAGAIN: something is going on that will be over soon; -EBUSY: ... maybe not soon; -ENOMEM.
 */
int handover_put(struct fs *fs, struct buf *out, struct fdbag *fds, struct problem *ret_why);

/* Return: 0 if there is nothing that handover_put() would have to wait for, but perhaps a sandbox; else as that. */
int handover_check(struct fs *fs, struct problem *ret_why);

/* In the heir, for each record that has one of these kinds, in their order. Return: 0, -EBADMSG, -errno. */
int handover_get(struct fs *fs, const struct record *rec, struct fdbag *fds,
		 struct problem *ret_why);

/* All were read: what they say of each other is put together. Return: likewise. */
int handover_join(struct fs *fs, struct problem *ret_why);

/* This is the daemon now: what stood still goes on. */
void handover_go(struct fs *fs);

#endif
