/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that change settings: `config`, `net/allow`. */
#ifndef XSBX_FS_TREE_SETTINGS_NODE_H
#define XSBX_FS_TREE_SETTINGS_NODE_H

#include "fs/request/handle.h"
#include "fs/session/node.h"

/*
 * Theory of operation
 * -------------------
 * Both nodes are texts that are replaced by `>` and added to by `>>`, and both change the session's
 * settings: `net/allow` is one of them, `allow`, as lines. So what a write to either means is worked
 * out on a copy, checked as a whole, put into effect in the sandbox where there is one, and only
 * then kept.
 *
 * Each write is checked and applied with all that this open wrote before it, because only write(2)
 * can still tell a shell of an error. A program that writes in blocks may cut a line in two: then the
 * last line is left for the next write, or for the flush.
 *
 * Opening `config` and writing nothing changes nothing. `net/allow` is a list, and `: > net/allow`
 * empties it: when the file is closed, for a shell flushes it before it has written anything.
 */

struct session;

extern const struct handle_ops config_ops; /* config, net/allow */

/* Appends what `config` reads as. Return: 0 or -ENOMEM. */
int config_render(const struct node *n, struct buf *out);

/* Replaces the session's settings by template defaults and @text. Return: 0 or -errno. */
int config_replace(struct session *s, const char *text, size_t len);

/* Replaces the session's allow list. Return: 0 or -errno. */
int config_allow(struct session *s, const char *text, size_t len);

#endif
