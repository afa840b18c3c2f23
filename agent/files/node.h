/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes and handles of files/ that the host refers to, by numbers that are never reused. */
#ifndef XSBX_AGENT_FILES_NODE_H
#define XSBX_AGENT_FILES_NODE_H

#include <stdint.h>
#include <sys/types.h>

#define NODE_ROOT    1
#define NODE_BUCKETS 4096u

/* A file known to the host. The descriptor pins it, so it stays the same file whatever happens to its
 * names. All names of a file refer to the same node. */
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

/* A directory being listed: entries from getdents64() that the host has not read yet. */
struct dir_buf {
	uint64_t next; /* offset of the first buffered entry */
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
 * node_get() - Find or create the node of a file; counts one lookup
 * @t: Table
 * @fd: O_PATH descriptor of the file; the table takes ownership, even on failure
 * @ret_node: The node
 *
 * Return: 0 or -errno.
 */
int node_get(struct node_table *t, int fd, struct node **ret_node);

/** node_find() - Find a node by number. Return: it or NULL. */
struct node *node_find(const struct node_table *t, uint64_t id);

/**
 * node_forget() - Subtract lookups; a node without any is freed
 * @t: Table
 * @id: Node; unknown ones and the root are ignored
 * @lookups: How many
 */
void node_forget(struct node_table *t, uint64_t id, uint64_t lookups);

/**
 * handle_new() - Create a handle for an open descriptor
 * @t: Table
 * @fd: Descriptor; the table takes ownership, even on failure
 * @is_dir: It is a directory that will be listed
 * @ret_id: The number of the handle
 *
 * Return: 0 or -ENOMEM.
 */
int handle_new(struct node_table *t, int fd, int is_dir, uint64_t *ret_id);

/** handle_find() - Find a handle by number. Return: it or NULL. */
struct handle *handle_find(const struct node_table *t, uint64_t id);

/** handle_free() - Close a handle; unknown ones are ignored. */
void handle_free(struct node_table *t, uint64_t id);

/** node_clear() - Free and close everything. */
void node_clear(struct node_table *t);

#endif
