/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes whose text is rendered when they are opened; renders the short ones. */
#ifndef XSBX_FS_TREE_TEXT_H
#define XSBX_FS_TREE_TEXT_H

#include "fs/request/handle.h"
#include "fs/session/node.h"

extern const struct handle_ops text_ops;

/* Answers a read from a complete text. */
void text_reply(struct req *req, const struct buf *text, size_t size, uint64_t offset);

/* For handle_ops: reads the handle's `text`. */
void text_read(struct handle *h, struct req *req, size_t size, uint64_t offset, bool nonblock);

/* The contents of nodes. Each appends to @out. Return: 0 or -errno. */
int text_error(const struct node *n, struct buf *out);
int text_complaint(const struct node *n, struct buf *out);
int text_state(const struct node *n, struct buf *out);
int text_summary(const struct node *n, struct buf *out);
int text_code(const struct node *n, struct buf *out);
int text_console(const struct node *n, struct buf *out);
int text_run_code(const struct node *n, struct buf *out);
int text_run_state(const struct node *n, struct buf *out);
int text_run_summary(const struct node *n, struct buf *out);
int text_exit_code(const struct node *n, struct buf *out);

#endif
