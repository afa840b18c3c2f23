/* SPDX-License-Identifier: Apache-2.0 */
/* The root's `ctl` node: what is logged, while the mount is there. */
#ifndef XSBX_FS_TREE_ROOT_CTL_H
#define XSBX_FS_TREE_ROOT_CTL_H

#include "fs/request/handle.h"

/* A write is the name of a level; only whoever mounted may write it. What is wrong with it the root's `error` says. */
extern const struct handle_ops root_ctl_ops;

#endif
