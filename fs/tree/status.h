/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON nodes: `status.json` at three levels, and `template.json`. */
#ifndef XSBX_FS_TREE_STATUS_H
#define XSBX_FS_TREE_STATUS_H

#include "vm/base/buf.h"
#include "fs/session/node.h"

/* Each appends one JSON object and a newline. Return: 0 or -errno. */
int status_root(const struct node *n, struct buf *out);
int status_template(const struct node *n, struct buf *out);
int status_session(const struct node *n, struct buf *out);
int status_run(const struct node *n, struct buf *out);

#endif
