/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's side of the mount: made, served, and taken away. */
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
 * Embedded by its owner, zeroed, with watch.fd -1; it stays until the loop has run dry.
 *
 * - `ended` is called from the loop when nothing is mounted any more, or requests cannot be had: @err is 0 for
 *   an unmount, and @why says it in words. It may be called again until devfuse_unmount().
 */
struct devfuse {
	/* Set by the owner. */
	void (*ended)(void *data, int err, const char *why);
	void *data;

	struct fs *fs;
	struct fuse_session *se;
	struct fuse_buf request;
	struct spawner *spawner; /* unmounts: we may not, confined as we are */
	uv_poll_t poll;
	struct mountwatch watch;
	bool mounted;
};

/* Mounts @fs; on failure *ret_why says what the matter is,
 * and `mounted` whether it is there for all that. */
int devfuse_mount(struct devfuse *d, struct fs *fs, const struct conf *c, struct spawner *spawner,
		  const char **ret_why);

/* From now on, requests are answered in @loop. */
void devfuse_serve(struct devfuse *d, uv_loop_t *loop, const char *mountpoint);

/* Takes the mount away, if it is there. */
void devfuse_unmount(struct devfuse *d);

/* Frees its memory, when no request is waiting for its answer. */
void devfuse_free(struct devfuse *d);

#endif
