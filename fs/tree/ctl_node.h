/* SPDX-License-Identifier: Apache-2.0 */
/* The `ctl` node: executes the verbs written to it. */
#ifndef XSBX_FS_TREE_CTL_NODE_H
#define XSBX_FS_TREE_CTL_NODE_H

#include "fs/request/handle.h"

extern const struct handle_ops ctl_ops;

#endif
