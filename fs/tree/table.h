/* SPDX-License-Identifier: Apache-2.0 */
/* The table of nodes: for each kind its name, parent, content and operations. */
#ifndef XSBX_FS_TREE_TABLE_H
#define XSBX_FS_TREE_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "vm/base/buf.h"
#include "fs/request/handle.h"
#include "fs/request/reply.h"
#include "fs/session/node.h"

/* Called for each name in a directory, for listings and lookups. */
typedef void (*node_put_fn)(void *data, uint64_t ino, mode_t type, const char *name);

/* Functions that return int return 0 or -errno. NULL or 0 means: */
struct node_def {
	const char *name;	      /* not a fixed name */
	enum node_kind parent;	      /* NODE_NONE: the root */
	mode_t mode;		      /* type and permissions */
	const struct handle_ops *ops; /* for open handles; NULL: a directory or link */
	/* Renders its content when it is opened for reading; NULL: `ops` provide the content. */
	int (*render)(const struct node *n, struct buf *out);
	/* When its content was last changed; NULL: now. */
	struct timespec (*mtime)(const struct node *n);
	/* That of the text that is rendered, or 0. */
	uint64_t (*size)(const struct node *n);
	/* Is it there? It always is. */
	bool (*is_there)(const struct node *n);
	/* truncate(2) by path; NULL: refused. */
	int (*truncate)(const struct node *n, uint64_t size);
	/* Lists the variable names in a directory; NULL: there are none. */
	int (*find)(const struct node *dir, const char *name, uint64_t *ret_ino);
	void (*list)(const struct node *dir, node_put_fn put, void *data);
	enum reply_keep keep; /* what the kernel may cache */
};

extern const struct node_def node_defs[NODE_NKINDS];

/**
 * node_child() - Find the kind of a fixed child
 * @parent: Kind of the directory
 * @name: Name looked for
 *
 * Return: The kind, or NODE_NONE.
 */
enum node_kind node_child(enum node_kind parent, const char *name);

/* Appends the text of a node that renders one: all of it, or it fails. Return: 0 or -errno. */
int node_render(const struct node *n, struct buf *out);

#endif
