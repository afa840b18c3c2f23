/* SPDX-License-Identifier: Apache-2.0 */
/* What the host holds of files/: nodes and handles, by numbers that are never used twice. */
#ifndef XSBX_AGENT_FILES_NODE_H
#define XSBX_AGENT_FILES_NODE_H

#include <stdint.h>
#include <sys/types.h>

#define NODE_ROOT    1
#define NODE_BUCKETS 4096u

/* A file the host knows. The descriptor pins it, so it stays the same file whatever happens to its
 * names. One file is one node, however many names lead to it. */
struct node {
	struct node *id_next, *ino_next;
	uint64_t id;
	int fd; /* O_PATH | O_NOFOLLOW */
	dev_t dev;
	ino_t ino;
	mode_t type; /* S_IFMT bits */
	uint64_t lookups;
};

#define DIR_BUF 16384u

/* A directory being listed: what getdents64() gave and the host did not take yet. */
struct dir_buf {
	uint64_t next; /* offset at which the buffered entries go on */
	size_t first, end;
	uint8_t data[DIR_BUF] __attribute__((aligned(8)));
};

/* An open file or directory. */
struct handle {
	struct handle *next;
	uint64_t id;
	int fd;
	struct dir_buf *dir; /* NULL for a file */
};

struct node_table {
	struct node *by_id[NODE_BUCKETS];
	struct node *by_ino[NODE_BUCKETS];
	struct handle *handles[NODE_BUCKETS];
	uint64_t last_id;
};

/**
 * node_get() - Find the node of a file, or make one; counts one lookup
 * @t: Table
 * @fd: O_PATH descriptor of the file; the table owns it from now on, on failure too
 * @ret_node: The node
 *
 * Return: 0 or -errno.
 */
int node_get(struct node_table *t, int fd, struct node **ret_node);

/** node_find() - The node of that number, or NULL. */
struct node *node_find(const struct node_table *t, uint64_t id);

/**
 * node_forget() - Take back lookups; a node without any is freed
 * @t: Table
 * @id: Node; unknown ones and the root are left alone
 * @lookups: How many
 */
void node_forget(struct node_table *t, uint64_t id, uint64_t lookups);

/**
 * handle_new() - Remember an open descriptor
 * @t: Table
 * @fd: Descriptor; the table owns it from now on, on failure too
 * @is_dir: It is a directory that will be listed
 * @ret_id: The number of the handle
 *
 * Return: 0 or -ENOMEM.
 */
int handle_new(struct node_table *t, int fd, int is_dir, uint64_t *ret_id);

/** handle_find() - The handle of that number, or NULL. */
struct handle *handle_find(const struct node_table *t, uint64_t id);

/** handle_free() - Close a handle; unknown ones are left alone. */
void handle_free(struct node_table *t, uint64_t id);

/** node_clear() - Forget and close everything. */
void node_clear(struct node_table *t);

#endif
