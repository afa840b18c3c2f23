/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's requests, as libfuse hands them out. */
#ifndef XSBX_FS_FUSE_OPS_H
#define XSBX_FS_FUSE_OPS_H

#include <fuse_lowlevel.h>

#define OPS_WRITE_MAX (1u << 20) /* bytes of one write(2) that the kernel sends at once */

/* Handlers for fuse_session_new(); their userdata is struct fs. */
extern const struct fuse_lowlevel_ops ops;

#endif
