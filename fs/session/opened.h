/* SPDX-License-Identifier: Apache-2.0 */
/* Open handles of nodes: what they keep of a session, and who pays for them. */
#ifndef XSBX_FS_SESSION_OPENED_H
#define XSBX_FS_SESSION_OPENED_H

#include "fs/request/handle.h"
#include "node.h"

/* Return: a handle in the mount's table, which has references on @n's session and run until it is freed, or NULL for want
 * of memory. Whether there may be one more, quota_open() says. */
struct handle *opened_new(const struct node *n, const struct handle_ops *ops, int flags);

/* Binds @h to @r (a reference) instead of what it was bound to. */
void opened_bind(struct handle *h, struct run *r);

#endif
