/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes and handles of files/ that the host refers to, by numbers that are never reused. */
#ifndef XSBX_AGENT_FILES_NODE_H
#define XSBX_AGENT_FILES_NODE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

/*
 * Theory of operation
 * -------------------
 * The host's kernel remembers files by the ten thousand, and each is a node here. A node's descriptor pins its
 * file, so that it stays the same whatever user code does to names. But descriptors are few, so those of nodes
 * are a cache: of the nodes that were not used for longest the descriptor is closed, and the path that the
 * kernel gives for it at that moment is kept. When the host next uses the node, the path is walked name
 * by name, no link is followed, and what is found there has to be the same file: device, number, kind, and
 * time of birth where the file system has one. So it cannot be another one, wherever user code has led the way
 * meanwhile. If it is not there the answer is ESTALE, on which kernels walk the path of the caller again; each
 * LOOKUP that finds the file gives the node its descriptor back. What remains without an answer is what the host
 * refers to by no name, such as a current directory, after user code has renamed or replaced it.
 *
 * - A file that is open by a handle keeps its node's descriptor, and so does the root.
 * - A file without a path (its name was removed, or the path is longer than the kernel tells) cannot be found
 *   again, so its descriptor stays. Of those there may be an eighth of all; then the oldest is dropped.
 * - Directories are closed only where they are three quarters: they are what is used without a name.
 * - A node that is dropped is not known any more: ESTALE, and a LOOKUP makes another one. Besides those without a path,
 *   closed ones are dropped where there are NODES_MAX, or their paths take PATHS_MAX, so a host that forgets nothing does
 *   not use up the memory.
 *
 * Handles are real descriptors. There may be handles_max of them; then opening fails with ENFILE. With what
 * node_init() gives each, a quarter of the descriptors is left for runs, interpreters and all else.
 */

#define NODE_ROOT    1
#define NODE_BUCKETS 4096u

#define NODES_MAX    65536u
#define PATHS_MAX    (16u << 20) /* bytes: of paths of the usual length there is room for all */
#define NODE_FDS_MIN 32u    /* so that those in use by a request are not the oldest of any list */
#define NODE_FDS_MAX 8192u  /* a descriptor takes memory of the kernel, and is soon opened again */
#define HANDLES_MAX  16384u /* as many as the host's mount has */

/* What a node's descriptor is to the cache. */
enum node_list {
	NODES_HELD, /* it stays: there are handles, or it is the root. Not in a list */
	NODES_FILES,
	NODES_DIRS,
	NODES_NAMELESS, /* it had no path when it was to be closed */
	NODES_CLOSED,	/* there is none, but a path */
	NODES_NLISTS,
};

/* What tells a file from all others. */
struct node_identity {
	dev_t dev;
	ino_t ino;
	mode_t type; /* S_IFMT bits */
	int64_t born;
	uint32_t born_ns;
};

/* A file known to the host. All names of a file refer to the same node. */
struct node {
	struct node *id_next, *ino_next;
	TAILQ_ENTRY(node) link; /* longest unused first */
	enum node_list list;
	unsigned handles;
	uint64_t id;
	int fd;	    /* O_PATH | O_NOFOLLOW; -1: closed */
	char *path; /* of a closed one, below the root */
	struct node_identity is;
	uint64_t lookups;
	bool doubted; /* node_hold() may still say that the host has it */
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
	uint64_t id, node; /* of what is open */
	int fd;
	struct dir_buf *dir; /* NULL for a file */
};

TAILQ_HEAD(nodes, node);

struct node_table {
	struct node *by_id[NODE_BUCKETS];
	struct node *by_ino[NODE_BUCKETS];
	struct handle *handles[NODE_BUCKETS];
	struct nodes lists[NODES_NLISTS];
	size_t n[NODES_NLISTS], nhandles;
	size_t fds_max, closed_max, paths_max, handles_max, limit;
	size_t paths; /* bytes that paths take */
	uint64_t last_id;
	int root_fd, proc_fd; /* the file server's */
	char *root;	      /* path */
	bool said_dropped, said_full;
};

/**
 * node_init() - Prepare a table
 * @t: Table, zeroed
 * @root_fd: Directory that all nodes are below
 * @proc_fd: /proc/self/fd
 * @limit: Descriptors that this process may have
 *
 * Return: 0 or -errno.
 */
int node_init(struct node_table *t, int root_fd, int proc_fd, size_t limit);

/**
 * node_get() - Find or create the node of a file; counts one lookup
 * @t: Table
 * @fd: O_PATH descriptor of the file; the table takes ownership, even on failure
 * @ret_node: The node. It and its descriptor stay for the next two calls of node_get() and node_use()
 *
 * Return: 0 or -errno.
 */
int node_get(struct node_table *t, int fd, struct node **ret_node);

/**
 * node_use() - Find a node by number, with a descriptor
 * @t: Table
 * @id: Node
 * @ret_node: The node; see node_get()
 *
 * Return: 0; -ESTALE: there is no such node, or its file was not found again; another -errno.
 */
int node_use(struct node_table *t, uint64_t id, struct node **ret_node);

/** node_find() - Find a node by number. Return: it, which may have no descriptor, or NULL. */
struct node *node_find(const struct node_table *t, uint64_t id);

/**
 * node_forget() - Subtract lookups; a node without any is freed
 * @t: Table
 * @id: Node; unknown ones and the root are ignored
 * @lookups: How many
 */
void node_forget(struct node_table *t, uint64_t id, uint64_t lookups);

/*
 * The host says which nodes it has, between a begin and an end: of those that it names so many lookups, and those that it
 * does not name are freed. Nodes that become known meanwhile stay.
 */
void node_hold_begin(struct node_table *t);
void node_hold(struct node_table *t, uint64_t id, uint64_t lookups);
void node_hold_end(struct node_table *t);

/** handle_room() - May there be another handle? Return: 0 or -ENFILE. */
int handle_room(struct node_table *t);

/**
 * handle_new() - Create a handle for an open descriptor
 * @t: Table
 * @fd: Descriptor; the table takes ownership, even on failure
 * @node: Number of the node that it is open on, which is in use
 * @is_dir: It is a directory that will be listed
 * @ret_id: The number of the handle
 *
 * Return: 0 or -ENOMEM.
 */
int handle_new(struct node_table *t, int fd, uint64_t node, int is_dir, uint64_t *ret_id);

/** handle_find() - Find a handle by number. Return: it or NULL. */
struct handle *handle_find(const struct node_table *t, uint64_t id);

/** handle_free() - Close a handle; unknown ones are ignored. */
void handle_free(struct node_table *t, uint64_t id);

/** node_renew() - Forget all nodes but the root, and close all handles: another host holds none of them. */
void node_renew(struct node_table *t);

/** node_clear() - Free and close everything. */
void node_clear(struct node_table *t);

#endif
