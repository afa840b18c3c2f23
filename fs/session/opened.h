/* SPDX-License-Identifier: Apache-2.0 */
/* Open handles of nodes: their references to a session, and the user charged for them. */
#ifndef XSBX_FS_SESSION_OPENED_H
#define XSBX_FS_SESSION_OPENED_H

#include "fs/request/handle.h"
#include "node.h"

/* Return: a handle in the mount's table, which has references on @n's session and run until it is freed, or NULL if out
 * of memory. quota_open() checks whether another one is allowed. */
struct handle *opened_new(const struct node *n, const struct handle_ops *ops, int flags);

/* Binds @h to the run @r, with a reference, instead of the one before. */
void opened_bind(struct handle *h, struct run *r);

#endif
