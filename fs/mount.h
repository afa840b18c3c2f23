/* SPDX-License-Identifier: Apache-2.0 */
/* The mount as a whole: its start and its end. */
#ifndef XSBX_FS_MOUNT_H
#define XSBX_FS_MOUNT_H

#include <stdbool.h>
#include <uv.h>

#include "fs/session/fs.h"

/**
 * mount_init() - Set up an empty mount
 * @fs: Zeroed memory; fs->vm is set by the caller
 * @loop: Loop that everything runs on
 * @conf: Configuration; stays the caller's, must outlive @fs
 *
 * Return: 0 or -errno (the spool directory could not be opened).
 */
int mount_init(struct fs *fs, uv_loop_t *loop, struct conf *conf);

/* Ends every session and answers every waiting request; the sandboxes end by vm_close(). */
void mount_stop(struct fs *fs);

/* Frees what is left, after the loop's last turn. Return: false if a disk has still not answered, so that
 * @fs has to stay where it is. */
bool mount_fini(struct fs *fs);

#endif
