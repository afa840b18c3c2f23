/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of a session's network: net/allow, net/denied. */
#ifndef XSBX_FS_TREE_NETWORK_H
#define XSBX_FS_TREE_NETWORK_H

#include "vm/base/buf.h"
#include "fs/session/node.h"

/* Each appends the content of a node. Return: 0 or -errno. */
int network_render_allow(const struct node *n, struct buf *out);
int network_render_denied(const struct node *n, struct buf *out);

#endif
