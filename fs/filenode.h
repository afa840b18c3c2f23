/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes below `files/`: which of the agent's nodes the kernel knows by which number. */
#ifndef XSBX_FILENODE_H
#define XSBX_FILENODE_H

#include <stdint.h>
#include <sys/types.h>
#include <uv/tree.h>

/*
 * - An index stands for one (epoch, remote) for as long as the kernel has looked it up, or one of its
 *   children, and is only then given to another.
 * - Index 0 is the root (`files/` itself), which is not in the table.
 * - `told` lookups have been answered by the agent and not yet been forgotten there.
 */
struct filenode {
	RB_ENTRY(filenode) link;
	uint32_t index, epoch;
	uint64_t remote;
	uint32_t parent; /* where it was last looked up; a reference on it */
	uint32_t children;
	uint64_t lookups; /* of the kernel */
	uint64_t told;
};

RB_HEAD(filenode_tree, filenode);

struct filenodes {
	struct filenode **table; /* by index; NULL where free */
	uint32_t cap, n, hint;
	struct filenode_tree tree; /* by (epoch, remote) */
};

/* Called when a node goes, so that the agent can be told. */
typedef void (*filenode_gone_fn)(void *data, const struct filenode *fn);

void filenodes_init(struct filenodes *fns);
void filenodes_fini(struct filenodes *fns);

struct filenode *filenode_get(const struct filenodes *fns, uint32_t index);

/**
 * filenode_look() - A lookup has been answered
 * @fns: Table
 * @epoch: Of the sandbox
 * @remote: The agent's number
 * @parent: Index of the directory it was found in, 0 for the root
 * @gone: Called for directories that nothing holds any more, since it moved away; may be NULL
 * @data: Its first argument
 *
 * Return: the node, with one more lookup, or NULL for want of memory.
 */
struct filenode *filenode_look(struct filenodes *fns, uint32_t epoch, uint64_t remote,
			       uint32_t parent, filenode_gone_fn gone, void *data);

/* The kernel has forgotten @n lookups of @index. @gone may be called, for it and for its parents. */
void filenode_forget(struct filenodes *fns, uint32_t index, uint64_t n, filenode_gone_fn gone,
		     void *data);

/* How many directories lie between the root and @index: 0 for an entry of the root, and for what is
 * deeper than can be. */
unsigned filenode_depth(const struct filenodes *fns, uint32_t index);

/**
 * filenode_link() - May a symbolic link of a sandbox be shown as one?
 * @target: What the agent said, not terminated
 * @len: Bytes
 * @depth: Directories between the root and the link
 * @out: The target to show, terminated
 * @size: Bytes at @out
 *
 * Only links that stay below the root may: a relative target may climb no higher than that, and must do
 * so before it names anything, since a name may itself be a link; an absolute one must lie below
 * the sandbox's working directory, and is made relative.
 *
 * Return: 0, or -EPERM.
 */
int filenode_link(const char *target, size_t len, unsigned depth, char *out, size_t size);

#endif
