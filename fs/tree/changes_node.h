/* SPDX-License-Identifier: Apache-2.0 */
/* The `files.changes` node: changes of a session in its copy of a host directory. */
#ifndef XSBX_FS_TREE_CHANGES_NODE_H
#define XSBX_FS_TREE_CHANGES_NODE_H

#include "fs/request/handle.h"
#include "fs/session/node.h"

extern const struct handle_ops changes_ops;

int changes_size(const struct node *n, uint64_t *ret_size);

#endif
