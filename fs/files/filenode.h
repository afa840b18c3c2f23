/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes below `files/`: the mapping between inode numbers of the kernel and nodes of the agent. */
#ifndef XSBX_FS_FILES_FILENODE_H
#define XSBX_FS_FILES_FILENODE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv/tree.h>

/*
 * Theory of operation
 * -------------------
 * A symbolic link's target is relative to the directory in which the kernel found the link, and the
 * kernel resolves ".." in its own tree of names. So a target may be shown if it climbs no higher
 * than the root from that place. The guest can give a link several names, and move directories
 * while they are being walked, so neither the link itself nor its present place in the guest tells
 * how deep that place is.
 *
 * For directories and links, a node is therefore a name in a directory, not an inode: the same link
 * under two names is two nodes, and a directory moved by the guest is a new node at the new place,
 * while the old node keeps the place where it was found, as do the names below it that the kernel
 * holds. Nothing that the guest does moves a node. Files have no place: there is one node for all
 * names of a file, so that the kernel has one inode for it. But in what was saved each name is one; if two of
 * them are open when the session wakes, both go on, and what the kernel knows of the one is not true of the other.
 *
 * Only a rename(2) on the host moves nodes, in the kernel and then here. Two rules make that safe:
 *
 * - A target that was shown may not have been followed yet. `counted` says for each directory how deep
 *   it must stay for the targets shown below it, and a move to a shallower place is
 *   refused with EXDEV: those links would lead out of there anyway, and mv(1) falls back to copying.
 * - The kernel moves its name shortly after the answer. So a node counts as no deeper than any
 *   place it has had (`depth_max`). A node that is actually deeper is not found any more: the next
 *   lookup makes a new node with a known place.
 *
 * - An index refers to one node as long as the kernel holds lookups of it or of its children,
 *   and is reused only then. Index 0 is the root (`files/` itself), which is not in the table.
 * - Depth: directories between the root and a node; 0 for an entry of the root. A link may climb as
 *   many.
 * - From one sandbox to the next, and to what is saved, a directory is known again by its name and its inode number: if it was
 *   moved there, or is another one, it is not found any more. What was saved by an older agent has no numbers; and where a file
 *   system gives the number of what was removed to what is made next, that is taken for it: ext4 does, but what can be saved is
 *   in a tmpfs, which counts on.
 * - What the host has removed is dead to the kernel for as long as anybody has it open, or stands there: nothing is made or found
 *   in such a directory any more. Should another state of the session have it again, that is a new node.
 * - `told` lookups were answered by the agent and not yet forgotten there.
 * - What changes is noted by its index, for who writes nodes down as records: with a hundred
 *   thousand of them, one that changes costs no more than itself.
 */
#define FILENODE_REMOVED UINT64_MAX /* nothing has this number */

enum filenode_class {
	FILENODE_FILE, /* nodes without a place: files, and what can't be opened */
	FILENODE_DIR,
	FILENODE_LINK,
};

struct filenode {
	RB_ENTRY(filenode) link;
	struct filenode *next; /* while it is being moved */
	enum filenode_class class;
	bool findable; /* in the tree */
	uint32_t index, epoch;
	uint64_t remote;
	uint64_t ino;	 /* its number, awake and asleep; 0: not known, or FILENODE_REMOVED */
	uint32_t parent; /* index; a reference on it. 0 for a file */
	char *name;	 /* NULL for a file */
	uint32_t children;
	uint32_t depth_max, counted;
	uint64_t lookups; /* of the kernel */
	uint64_t told;
	bool locked;		    /* a lock on it was requested; set by filenode_lock() */
	bool noted;		    /* it is among those that have changed */
	TAILQ_ENTRY(filenode) kept; /* of those whose attributes the kernel may keep */
	uint64_t kept_until;	    /* uv_now(); 0: it may not */
	RB_ENTRY(filenode) dir;	    /* of directories, by what they are */
	bool single;		    /* it is in there */
};

RB_HEAD(filenode_tree, filenode);
RB_HEAD(filenode_dirs, filenode);

/* Called when a node goes, so that the agent can be told. */
typedef void (*filenode_gone_fn)(void *data, struct filenode *fn);

/* Called when a node is about to change, or has come or gone. Return: is anything written down at
 * all? */
typedef bool (*filenode_changed_fn)(void *data);

/* Indexes of nodes that have changed, or are new, or gone; some of them perhaps twice. */
struct filenode_notes {
	uint32_t *index;
	uint32_t n, cap;
	bool all; /* there was no memory to say which */
};

struct filenodes {
	struct filenode **table; /* by index; NULL where free */
	uint32_t cap, n, hint;
	struct filenode_tree tree; /* by place, then (epoch, remote) */
	struct filenode_dirs dirs; /* by (epoch, remote) */
	bool doubled;		   /* there have been two nodes for one directory */
	bool twins;		   /* ... for one file */
	filenode_gone_fn gone;
	filenode_changed_fn changed; /* set by the owner; NULL: nothing is noted */
	void *data;
	bool follows; /* set by the owner: one epoch comes after another, and directories go on */
	struct filenode_notes notes;
};

/* The result of a lookup. */
struct filenode_found {
	uint32_t epoch;	      /* of the sandbox */
	uint64_t remote, ino; /* `ino` 0: not known */
	uint32_t mode;	      /* S_IFMT determines the class */
	uint32_t parent;      /* index of the directory, 0 for the root */
	const char *name;
	uint32_t since; /* epoch: directories of earlier ones are others, whatever their number */
};

/* @gone: called with @data when a node is forgotten, but not from filenodes_fini(). */
void filenodes_init(struct filenodes *fns, filenode_gone_fn gone, void *data);
void filenodes_fini(struct filenodes *fns);

struct filenode *filenode_get(const struct filenodes *fns, uint32_t index);

/* A lookup was answered. Return: the node, with one more lookup, or NULL if out of memory. */
struct filenode *filenode_look(struct filenodes *fns, const struct filenode_found *found);

/* The kernel has forgotten @n lookups of @index. It may go, and its parents. */
void filenode_forget(struct filenodes *fns, uint32_t index, uint64_t n);

/* Can these be the numbers of one file? Nobody knows without. */
bool filenode_same_number(uint64_t a, uint64_t b);
/* Can it be what has this number? */
bool filenode_is(const struct filenode *fn, uint64_t ino);

/* The directory or file @fn was found where it is in another sandbox, or in what is saved, by one lookup; there it has the number
 * @ino (0: not known, and it will be another one in the sandbox that comes of that). */
void filenode_follow(struct filenodes *fns, struct filenode *fn, uint32_t epoch, uint64_t remote,
		     uint64_t ino);

/* Depth of the entries of directory @dir; 0 for the root. @ret_exact:
 * whether that is exact, and not just a lower bound; may be NULL. */
uint32_t filenode_depth_in(const struct filenodes *fns, uint32_t dir, bool *ret_exact);
/* The same for the node @index itself. */
uint32_t filenode_depth(const struct filenodes *fns, uint32_t index, bool *ret_exact);

/* A lock on @index is requested: from now on it may have some. */
void filenode_lock(struct filenodes *fns, uint32_t index);
/* May it have some, or another node for the same file? */
bool filenode_may_be_locked(const struct filenodes *fns, const struct filenode *fn);

/* May there be another node for the same file or directory? */
bool filenode_is_doubled(const struct filenodes *fns, const struct filenode *fn);

/* What was noted is written down. */
void filenodes_noted(struct filenodes *fns);

/* Link @index was shown with a target that climbs @up directories. */
void filenode_count_on(struct filenodes *fns, uint32_t index, uint32_t up);

/* A rename on the host. */
struct filenode_move {
	uint32_t parent, newparent; /* indexes */
	const char *name, *newname;
};

/* Before the move. Return: 0, or -EXDEV if links below it depend on its depth. */
int filenode_may_move(struct filenodes *fns, const struct filenode_move *m);
/* It has been moved. @exchange: and what had the new name, has the old one now; else that is removed. */
void filenode_moved(struct filenodes *fns, const struct filenode_move *m, bool exchange);

/* The host has removed what has this name in the directory @parent. */
void filenode_removed(struct filenodes *fns, uint32_t parent, const char *name);

/* ---- of a daemon before this one ---- */

/* Adds a node like @like: its index, class, epoch, remote, parent, name (copied), depths, lookups,
 * told, inode number, and whether it is locked or findable. Return: 0, -EBADMSG if there can be none like that,
 * -ENOMEM. */
int filenode_revive(struct filenodes *fns, const struct filenode *like);

/* All were added: puts them together. Return: 0, -EBADMSG if they don't fit. */
int filenodes_join(struct filenodes *fns);

#endif
