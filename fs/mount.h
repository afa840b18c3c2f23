/* SPDX-License-Identifier: Apache-2.0 */
/* The mount as a whole: start and end. */
#ifndef XSBX_FS_MOUNT_H
#define XSBX_FS_MOUNT_H

#include <stdbool.h>
#include <uv.h>

#include "fs/session/fs.h"

/**
 * mount_init() - Set up an empty mount
 * @fs: Zeroed memory; fs->vm is set by the caller
 * @loop: The event loop
 * @conf: Configuration; owned by the caller, must outlive @fs
 *
 * Return: 0 or -errno (the spool directory could not be opened).
 */
int mount_init(struct fs *fs, uv_loop_t *loop, struct conf *conf);

/* What was asked of a daemon before this one has waited there, too: where a kernel limits how long,
 * it is renewed sooner. */
void mount_go_on(struct fs *fs);

/* Ends all sessions and answers all waiting requests; sandboxes are ended by vm_close(). */
void mount_stop(struct fs *fs);

/* Frees everything, after the loop's last iteration. Return: false if disk operations are still
 * pending, so that @fs must not be freed. */
bool mount_fini(struct fs *fs);

#endif
