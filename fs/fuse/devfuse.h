/* SPDX-License-Identifier: Apache-2.0 */
/* The FUSE mount and its connection to the kernel: mounting, serving requests, unmounting. */
#ifndef XSBX_FS_FUSE_DEVFUSE_H
#define XSBX_FS_FUSE_DEVFUSE_H

#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <uv.h>

#include "mountwatch.h"
#include "unanswered.h"
#include "vm/base/buf.h"
#include "vm/base/record.h"

struct conf;
struct fs;
struct spawner;

/*
 * Embedded by its owner, zeroed, with watch.fd -1; kept until the loop has ended.
 *
 * - `ended` is called from the loop when it was unmounted, or requests can't be received: @err is 0 for
 *   an unmount, and @why explains it. It may be called repeatedly until devfuse_unmount().
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

/* Instead of devfuse_mount(): for a mount that is there already, with this connection to the kernel. Return: likewise. */
int devfuse_inherit(struct devfuse *d, struct fs *fs, const struct conf *c, struct spawner *spawner,
		    int connection, const char **ret_why);

/* Appends fields: how the kernel and libfuse have agreed, and all requests that were not answered. Return: 0, -ENOMEM; -EOPNOTSUPP:
 * something of it is not known. */
int devfuse_put(const struct devfuse *d, struct buf *out);

/* In the heir. Return: 0, -EBADMSG, -ENOMEM; -EOPNOTSUPP: this program wants other things of the kernel than were agreed upon. */
int devfuse_get(struct devfuse *d, struct record_reader fields);

/* Handles what was not answered, as if it had just come: in an heir that is the daemon now. */
void devfuse_replay(struct devfuse *d);

/* Unmounts, if it is mounted. */
void devfuse_unmount(struct devfuse *d);

/* Frees its memory, once all requests are answered. */
void devfuse_free(struct devfuse *d);

#endif
