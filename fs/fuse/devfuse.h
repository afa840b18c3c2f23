/* SPDX-License-Identifier: Apache-2.0 */
/* The FUSE mount and its connection to the kernel: mounting, serving requests, unmounting. */
#ifndef XSBX_FS_FUSE_DEVFUSE_H
#define XSBX_FS_FUSE_DEVFUSE_H

#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <uv.h>

#include "inbox.h"
#include "mountwatch.h"
#include "outbox.h"
#include "unanswered.h"
#include "vm/base/buf.h"
#include "vm/base/record.h"
#include "vm/base/turn.h"

struct conf;
struct estate;
struct fs;
struct spawner;

/*
 * Theory of operation
 * -------------------
 * A request is received, libfuse hands it to its handler in ops.c, and whatever libfuse says to the
 * kernel passes on_reply(). What was not answered by then is kept, as it came, for a daemon that
 * takes the mount over.
 *
 * With devfuse_survive() the daemon may be killed at any moment. The kernel asks nothing twice, so
 * each request has to be somewhere from the moment that it leaves the kernel until the kernel has
 * its answer:
 *
 *     in the inbox     received in this turn; the commit covers what came of it
 *     in a record      not answered when the turn ended (HANDOVER_REQUEST)
 *     in the outbox    its answer is committed, and perhaps not said
 *
 * All three are looked at by the heir, in devfuse_replay(): it says the answers, asks the kernel
 * which of the requests still wait, and handles those as if they had just come, in the order in
 * which they did, before it reads new ones. What can't be asked about, because it has no answer, is
 * handled if its number says that it was not. Interrupts come again with the asking.
 *
 * Embedded by its owner, zeroed, with watch.fd -1; kept until the loop has ended.
 *
 * - `ended` is called from the loop when it was unmounted, or requests can't be received: @err is 0
 *   for an unmount, and @why explains it. It may be called repeatedly until devfuse_unmount().
 */
struct devfuse {
	/* Set by the owner. */
	void (*ended)(void *data, int err, const char *why);
	void *data;

	struct fs *fs;
	struct fuse_session *se;
	struct fuse_buf request;
	struct spawner *spawner; /* unmounts, because the confined daemon may not */
	uv_poll_t poll;
	struct mountwatch watch;
	bool mounted;
	uint64_t current; /* the request that is being handled, and was not answered yet; or 0 */
	struct unanswered unanswered;
	struct buf init,
		init_reply; /* the first request, by which the kernel and libfuse have agreed, and its answer */
	bool deaf; /* the kernel is told nothing, for it has had the answer */

	/* See devfuse_survive(). */
	bool survives; /* requests are received in the inbox, answers are said behind the commit */
	bool agreed;   /* INIT and its answer are recorded */
	struct turn *turn;
	struct turn_speaker speaker;
	unsigned together; /* requests of this turn */
	unsigned alone;	   /* so many more are committed one by one; see devfuse_turn.c */
	struct buf fields; /* of a record of it that is being put */
	struct inbox inbox;
	struct outbox outbox;
};

/* Mounts @fs; on failure *ret_why says why,
 * and `mounted` whether it is mounted nevertheless. */
int devfuse_mount(struct devfuse *d, struct fs *fs, const struct conf *c, struct spawner *spawner,
		  const char **ret_why);

/* Prepares for serving requests in @loop: opens what is needed. */
void devfuse_attach(struct devfuse *d, uv_loop_t *loop, const char *mountpoint);

/* Starts serving them, or goes on. */
void devfuse_serve(struct devfuse *d);

/* Requests are left where they are, until devfuse_serve(). */
void devfuse_pause(struct devfuse *d);

/* ---- a mount that is taken over, see fs/handover.h ---- */

/* Instead of devfuse_mount(): for a mount that is there already, with this connection to the
 * kernel. Return: likewise. */
int devfuse_inherit(struct devfuse *d, struct fs *fs, const struct conf *c, struct spawner *spawner,
		    int connection, const char **ret_why);

/* May another daemon go on from what is written down? Return: 0; -EAGAIN: something is to be said
 * before; -EOPNOTSUPP: it is not known any more what the kernel has asked. */
int devfuse_may_yield(const struct devfuse *d);

/* Without turns, instead of devfuse_commit(): puts, once, records of how the kernel and libfuse have
 * agreed, and of all requests that were not answered. Return: 0 or -errno. */
int devfuse_put(const struct devfuse *d, struct estate *e);

/* In an heir, while there is time: memory for what lies beside the records. Whether there is any is
 * seen later. */
void devfuse_reserve(struct estate *e);

/* In an heir, in turns of @t if it is on: takes the records of kinds HANDOVER_CONNECTION, _REQUEST
 * and _ANSWER, and what lies beside them. Not behind a commit of this process. Return: 0, -EBADMSG,
 * -ENOMEM; -EOPNOTSUPP: this program wants other things of the kernel than were agreed upon. */
int devfuse_load(struct devfuse *d, struct estate *e, struct turn *t);

/* This is the daemon now, whose mount it is. */
void devfuse_own(struct devfuse *d);

/* Likewise; and handles what was not answered, as if it had just come: in an heir that is the
 * daemon now. */
void devfuse_replay(struct devfuse *d);

/* ---- a daemon that may be killed; see fs/fuse/devfuse_turn.c ---- */

/* From now on, in turns of @t, which is on, and until it is off. Return: 0; -ENOMEM, and all is as
 * before. */
int devfuse_survive(struct devfuse *d, struct turn *t);

/* Puts records of what there is to be known of the connection: by the turn's ops, behind all
 * others. Return: 0 or -errno. */
int devfuse_commit(struct devfuse *d, struct estate *e);

/* The estate is about to be given up: what of the requests is in its records alone comes back. */
void devfuse_restore(struct devfuse *d, const struct estate *e);

/* Unmounts, if it is mounted. */
void devfuse_unmount(struct devfuse *d);

/* Frees its memory, once all requests are answered. */
void devfuse_free(struct devfuse *d);

#endif
