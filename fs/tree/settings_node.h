/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that change settings: `config`, `net/allow`. */
#ifndef XSBX_FS_TREE_SETTINGS_NODE_H
#define XSBX_FS_TREE_SETTINGS_NODE_H

#include "fs/request/handle.h"
#include "fs/session/node.h"

/*
 * Theory of operation
 * -------------------
 * Both nodes are texts that are replaced by `>` and appended to by `>>`, and both change the session's
 * settings: `net/allow` is one of them, `allow`, as lines. So a write to either is first applied
 * to a copy of the settings, validated as a whole, applied to the sandbox if there is one, and only
 * then kept.
 *
 * Each write is validated and applied together with all earlier writes of the same open, because write(2) is
 * the last chance to report an error to a shell. A program that writes in blocks may split a line: then the
 * last line is deferred to the next write, or to the flush.
 *
 * Opening `config` and writing nothing changes nothing. `net/allow` is a list, and `: > net/allow`
 * empties it: when the file is closed, because a shell flushes it before it has written anything.
 */

struct session;

extern const struct handle_ops config_ops; /* config, net/allow */

/* Appends the content of `config`. Return: 0 or -ENOMEM. */
int config_render(const struct node *n, struct buf *out);

/* Replaces the session's settings by template defaults and @text. Return: 0 or -errno. */
int config_replace(struct session *s, const char *text, size_t len);

/* Replaces the session's allow list. Return: 0 or -errno. */
int config_allow(struct session *s, const char *text, size_t len);

#endif
