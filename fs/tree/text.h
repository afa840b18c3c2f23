/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes whose text is rendered when they are opened. */
#ifndef XSBX_FS_TREE_TEXT_H
#define XSBX_FS_TREE_TEXT_H

#include "fs/request/handle.h"

struct fs;

extern const struct handle_ops text_ops;

/* Answers a read of a text that is there as a whole. */
void text_reply(struct req *req, const struct buf *text, size_t size, uint64_t offset);

/* For handle_ops: reads the handle's `text`. */
void text_read(struct fs *fs, struct handle *h, struct req *req, size_t size, uint64_t offset,
	       bool nonblock);

/* Appends what the node reads as now. Return: 0 or -errno. */
int text_render(struct fs *fs, const struct node *n, struct buf *out);

/**
 * text_size() - The size to show for a rendered node
 * @fs: Mount
 * @n: Node
 * @ret_size: Result
 *
 * While the node is open, it is the size of the text of the newest open: a program that asks for the
 * size after the open gets that of what it reads.
 *
 * Return: 0 or -errno.
 */
int text_size(struct fs *fs, const struct node *n, uint64_t *ret_size);

#endif
