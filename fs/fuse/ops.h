/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers for the kernel's requests, as called by libfuse. */
#ifndef XSBX_FS_FUSE_OPS_H
#define XSBX_FS_FUSE_OPS_H

#include <fuse_lowlevel.h>

#define OPS_WRITE_MAX (1u << 20) /* largest WRITE that the kernel sends */

/* Handlers for fuse_session_new(); their userdata is struct fs. */
extern const struct fuse_lowlevel_ops ops;

#endif
