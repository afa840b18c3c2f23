/* SPDX-License-Identifier: Apache-2.0 */
/* The mount as records, for a daemon that takes it over. */
#ifndef XSBX_FS_HANDOVER_HANDOVER_H
#define XSBX_FS_HANDOVER_HANDOVER_H

#include <stdint.h>

#include "vm/base/buf.h"
#include "vm/base/estate.h"
#include "vm/base/fdbag.h"
#include "vm/base/problem.h"
#include "vm/base/record.h"

struct fs;

/*
 * Theory of operation
 * -------------------
 * All that the kernel or a program on this host may refer to has to be the same in the next daemon:
 * inode numbers with their slots and generations, handles with theirs, what was read of logs, who
 * holds which lock. What a session is, fs/keep/ writes; here is what holds sessions and what is
 * held of them, and whatever there is of the mount itself. What waits is not written: the requests
 * are, and are handled again, see fs/fuse/devfuse.h.
 *
 * All of it is in an estate (vm/base/estate.h). With `survive = yes` there is one from the mount on,
 * where each turn writes what it has changed; without, one is written for an heir that waits for it.
 *
 * The one that writes changes nothing but what nobody sees, and goes on if it comes to nothing. The
 * one that reads believes nothing: a daemon may have been taken over by a guest, and its heir is
 * not to be. What can't be read is refused, and the one that wrote it goes on; if that has died, as
 * little is lost for it as can be (losses.c).
 */

/* Kinds of records, beside enum keep_kind. Never reuse. */
enum handover_kind {
	HANDOVER_MOUNT = 64, /* the first */
	HANDOVER_HANDLES,    /* not used any more: one for each is HANDOVER_GENERATION */
	HANDOVER_HANDLE,     /* key: its id */
	HANDOVER_LOCKS,
	HANDOVER_EVENTS, /* the log as such */
	HANDOVER_COMPLAINTS,
	HANDOVER_FILES, /* key: slot << 32 | generation of the session, as of those that follow */
	HANDOVER_SANDBOX,
	HANDOVER_SAVED,	     /* key: its number among those of the mount */
	HANDOVER_CONNECTION, /* see fs/fuse/devfuse_keep.c */
	HANDOVER_PROCESS, /* what the process has, and not the mount; see fs/succession_record.c */
	HANDOVER_END,	  /* not used any more */
	HANDOVER_SLOTS,	  /* not used any more: one for each is HANDOVER_SLOT */
	HANDOVER_WORKDIR, /* changes of a session in its copy of a directory of this host */
	HANDOVER_NODE = 80,  /* one that the kernel knows below files/ */
	HANDOVER_EVENT,	     /* key: its place in the log, as had the one that it drove out */
	HANDOVER_TEXT,	     /* a piece of what a handle has read or written; key: the handle's */
	HANDOVER_GENERATION, /* key: index of a handle that is free, or was */
	HANDOVER_SLOT,	     /* key: a free one of sessions; behind all sessions */
	HANDOVER_STATS,
	HANDOVER_AUDIT,	  /* lines of the audit log */
	HANDOVER_ACCOUNT, /* what a user has used today; key: its place, see fs/session/account.h */
	HANDOVER_REQUEST = 90, /* key: the kernel's number of it; see fs/fuse/devfuse_turn.c */
	HANDOVER_ANSWER, /* key: 0 what of the kernel's connection was handled; else one answer */
	HANDOVER_CALLS = 100,  /* key as of HANDOVER_FILES; requests that were answered in part */
	HANDOVER_COMMIT = 110, /* changes that are being applied to a directory of this host */
	/* Not used any more: who may have written it must not say what is done by it. */
	HANDOVER_CONF = 120,
	HANDOVER_BYTES = ESTATE_CHANNEL_BYTES, /* of sandboxes; vm/guest/channel_record.c */
};

/**
 * handover_put() - Write all there is into an estate of its own, once
 * @fs: Mount, which has no other one, or none any more
 * @e: Estate, in which there is nothing yet; its commit is the caller's
 * @fds: Descriptors that the records speak of
 *
 * At any moment: what is under way goes on, or is begun again. Return: 0 or -errno.
 */
int handover_put(struct fs *fs, struct estate *e, struct fdbag *fds);

/**
 * handover_commit() - Write into an estate what has changed
 * @fs: Mount; nothing of it need be there: at first all is written
 * @e: Estate, whose commit is the caller's
 * @fds: Descriptors that the records speak of; they need numbers that stay
 *
 * Return: 0 or -errno: the estate is not what it should be.
 */
int handover_commit(struct fs *fs, struct estate *e, struct fdbag *fds);

/* In the heir, for each record that has one of these kinds, in their order. Return: 0, -EBADMSG,
 * -errno. */
int handover_get(struct fs *fs, const struct record *rec, struct fdbag *fds,
		 struct problem *ret_why);

/* Calls @fn for each record of an estate that is for handover_get(), and HANDOVER_PROCESS, in an
 * order in which they can be read. Return: 0, or what it has returned, if that was not 0: then it
 * was the last. */
typedef int (*handover_record_fn)(void *data, const struct record *rec);
int handover_each(const struct estate *e, handover_record_fn fn, void *data);

/**
 * handover_differs() - Is something in the estate other than it should be?
 * @fs: Mount, of which everything is committed
 * @e: Estate
 * @fds: As when it was committed
 * @ret_what: The first that is, in words
 * @size: Of these
 *
 * Takes as long as writing all there is: for tests.
 *
 * Return: how many records are missing, left over, or others; -errno.
 */
int handover_differs(struct fs *fs, struct estate *e, struct fdbag *fds, char *ret_what,
		     size_t size);

/* All were read: what they say of each other is put together. Return: likewise. */
int handover_join(struct fs *fs, struct problem *ret_why);

/* This is the daemon now: what stood still goes on. */
void handover_go(struct fs *fs);

#endif
