/* SPDX-License-Identifier: Apache-2.0 */
/* The FUSE mount and its connection to the kernel: mounting, serving requests, unmounting. */
#ifndef XSBX_FS_FUSE_DEVFUSE_H
#define XSBX_FS_FUSE_DEVFUSE_H

#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <uv.h>

#include "mountwatch.h"

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
};

/* Mounts @fs; on failure *ret_why says why,
 * and `mounted` whether it is mounted nevertheless. */
int devfuse_mount(struct devfuse *d, struct fs *fs, const struct conf *c, struct spawner *spawner,
		  const char **ret_why);

/* Starts serving requests in @loop. */
void devfuse_serve(struct devfuse *d, uv_loop_t *loop, const char *mountpoint);

/* Unmounts, if it is mounted. */
void devfuse_unmount(struct devfuse *d);

/* Frees its memory, once all requests are answered. */
void devfuse_free(struct devfuse *d);

#endif
