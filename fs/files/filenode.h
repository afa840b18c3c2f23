/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes below `files/`: which of the agent's nodes the kernel knows by which number. */
#ifndef XSBX_FS_FILES_FILENODE_H
#define XSBX_FS_FILES_FILENODE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv/tree.h>

/*
 * Theory of operation
 * -------------------
 * A symbolic link's target counts from the directory the kernel found the link in, and it is the kernel
 * that climbs, by its own tree of names. So a target may be shown if it climbs no higher than the root
 * from that very place. The guest can give one link several names, and move directories about while
 * somebody walks through them, so neither the link itself nor where the guest has it now says
 * how deep that place is.
 *
 * What the kernel knows as a directory or a link is therefore a name in a directory, not an inode: the
 * same link under two names is two nodes, and a directory that the guest moved is a new node at the new
 * place, while the old one keeps the place it was found at, as do the names below it that the
 * kernel holds. Nothing the guest does moves a node. Files have no place: there is one node for all
 * names of one, so that the kernel has one inode for it.
 *
 * Only a rename(2) on the host moves nodes, in the kernel and then here. Two rules make that safe:
 *
 * - Whoever was shown a target may not yet have followed it. `counted` says of each directory how deep
 *   it must stay for the targets that were shown below it, and a move to a place above that is
 *   refused with EXDEV: those links would lead out of there anyway, and mv(1) copies.
 * - The kernel moves its name a moment after the answer. So a node counts as no deeper than any
 *   place it has had (`depth_max`). One that really lies deeper is not found any more: the next
 *   lookup makes a new node, whose place is known.
 *
 * - An index stands for one node for as long as the kernel has looked it up, or one of its children,
 *   and is only then given to another. Index 0 is the root (`files/` itself), which is not in the table.
 * - Depth: directories between the root and a node; 0 for an entry of the root. A link may climb as many.
 * - `told` lookups have been answered by the agent and not yet been forgotten there.
 */
enum filenode_class {
	FILENODE_FILE, /* whatever has no place: files, and what cannot be opened */
	FILENODE_DIR,
	FILENODE_LINK,
};

struct filenode {
	RB_ENTRY(filenode) link;
	struct filenode *next; /* while it is moved */
	enum filenode_class class;
	bool findable; /* in the tree */
	uint32_t index, epoch;
	uint64_t remote;
	uint32_t parent; /* index; a reference on it. 0 for a file */
	char *name;	 /* NULL for a file */
	uint32_t children;
	uint32_t depth_max, counted;
	uint64_t lookups; /* of the kernel */
	uint64_t told;
	bool locked; /* somebody asked for a lock on it */
};

RB_HEAD(filenode_tree, filenode);

/* Called when a node goes, so that the agent can be told. */
typedef void (*filenode_gone_fn)(void *data, const struct filenode *fn);

struct filenodes {
	struct filenode **table; /* by index; NULL where free */
	uint32_t cap, n, hint;
	struct filenode_tree tree; /* by place, then (epoch, remote) */
	filenode_gone_fn gone;
	void *data;
};

/* What a lookup said. */
struct filenode_found {
	uint32_t epoch; /* of the sandbox */
	uint64_t remote;
	uint32_t mode;	 /* its S_IFMT decides on the class */
	uint32_t parent; /* index of the directory, 0 for the root */
	const char *name;
};

/* @gone: called with @data when a node is forgotten, but not from filenodes_fini(). */
void filenodes_init(struct filenodes *fns, filenode_gone_fn gone, void *data);
void filenodes_fini(struct filenodes *fns);

struct filenode *filenode_get(const struct filenodes *fns, uint32_t index);

/* A lookup has been answered. Return: the node, with one more lookup, or NULL for want of memory. */
struct filenode *filenode_look(struct filenodes *fns, const struct filenode_found *found);

/* The kernel has forgotten @n lookups of @index. It may go, and its parents. */
void filenode_forget(struct filenodes *fns, uint32_t index, uint64_t n);

/* How many directories lie between the root and what is in the directory @dir, 0 for the root. @ret_exact:
 * whether that is certain, and not just the least that it can be; may be NULL. */
uint32_t filenode_depth_in(const struct filenodes *fns, uint32_t dir, bool *ret_exact);
/* The same for the node @index itself. */
uint32_t filenode_depth(const struct filenodes *fns, uint32_t index, bool *ret_exact);

/* The link @index was shown with a target that climbs @up directories. */
void filenode_count_on(struct filenodes *fns, uint32_t index, uint32_t up);

/* A name that is being renamed on the host, and its new one. */
struct filenode_move {
	uint32_t parent, newparent; /* indexes */
	const char *name, *newname;
};

/* It is about to be moved. Return: 0, or -EXDEV if links below it count on its depth. */
int filenode_may_move(struct filenodes *fns, const struct filenode_move *m);
/* It has been moved. @exchange: and what had the new name, has the old one now. */
void filenode_moved(struct filenodes *fns, const struct filenode_move *m, bool exchange);

#endif
