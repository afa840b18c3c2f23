/* SPDX-License-Identifier: Apache-2.0 */
/* A table of locks, their holders and waiters. Used by the agent for files, and by the daemon for its own nodes. */
#ifndef XSBX_AGENT_FILES_LOCKBOOK_H
#define XSBX_AGENT_FILES_LOCKBOOK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/protocol.h"

/*
 * Invariants
 * - A holder is a (file, owner) pair. Its ranges are sorted and do not overlap; adjacent ranges of the same
 *   type are merged.
 * - Locks of ranges (fcntl) and of the whole file (flock) are independent.
 * - `nranges` is the number of ranges, per holder and in total, including those kept to undo a change.
 *
 * Bounds
 * - A lock is refused when LOCKBOOK_HOLDERS, LOCKBOOK_RANGES, or the user's share of them is
 *   reached. It adds at most two ranges, so the limit may be exceeded by one.
 * - Unlocking needs a range only if it splits an existing one. There is a reserve of the same size
 *   for that, per user and in total, so that unlocking is not refused because locks have used up the limit.
 */

#define LOCKBOOK_HOLDERS 4096u
#define LOCKBOOK_RANGES	 65536u

/* Limits of one user. */
struct lock_share {
	unsigned holders, ranges;
};

/* A file. In the daemon `dev` is 0 of a node, see nodelock_file(). */
struct lock_file {
	uint64_t dev, ino;
};

/* A lock request. */
struct lock_ask {
	struct lock_file file;
	uint64_t owner;
	uint64_t start, end;
	enum proto_lock_type type;
	bool whole;
	uint32_t pid, uid;
	uint64_t handle; /* through which it is requested */
	uint64_t token;	 /* identifies it for undoing, or 0 */
};

struct lock_range {
	struct lock_range *next;
	uint64_t start, end;
	enum proto_lock_type type;
};

/* The last change of a holder, and the previous locks in its range. */
struct lock_undo {
	uint64_t token; /* 0: none */
	uint64_t start, end;
	struct lock_range *was;
	bool whole;
	enum proto_lock_type was_whole;
};

struct lock_holder {
	LIST_ENTRY(lock_holder) link;
	struct lock_file file;
	uint64_t owner;
	uint64_t handle; /* through which it last got a lock */
	uint32_t pid, uid;
	unsigned nranges;
	struct lock_undo undo;
	struct lock_range *ranges;
	enum proto_lock_type whole;
	unsigned waits; /* pending waits for it: it is not empty while there are any */
	int fd;		/* the agent's; -1 in the daemon */
};

/* Embedded in a waiting request. */
struct lock_waiter {
	TAILQ_ENTRY(lock_waiter) link;
	struct lock_ask ask;
};

struct lockbook {
	LIST_HEAD(lock_holders, lock_holder) holders;
	TAILQ_HEAD(lock_waiters, lock_waiter) waiters; /* in order of arrival */
	unsigned nholders, nranges;
	struct lock_share share;
};

/* Memory for a change, allocated in advance, so that the change can't fail. */
struct lock_spare {
	struct lock_range *range[2];
};

/* Initializes a book that one user may fill completely. `share` may be reduced afterwards. */
void lockbook_init(struct lockbook *b);

/** lockbook_find() - The holder of (@file, @owner), or NULL. */
struct lock_holder *lockbook_find(const struct lockbook *b, struct lock_file file, uint64_t owner);

/** lockbook_new() - Create a holder without locks. Return: it, or NULL if out of memory, or too many. */
struct lock_holder *lockbook_new(struct lockbook *b, const struct lock_ask *ask);

/** lockbook_free() - Free a holder and its locks; the caller owns its descriptor. */
void lockbook_free(struct lockbook *b, struct lock_holder *h);

/** lockbook_empty() - Has the holder no locks, and no pending waits? */
bool lockbook_empty(const struct lock_holder *h);

/**
 * lockbook_reserve() - Allocate the memory for one lockbook_apply()
 * @b: Book
 * @h: Holder, or NULL for a new one
 * @ask: What is wanted
 * @ret_spare: The memory
 *
 * Return: 0 or -ENOLCK.
 */
int lockbook_reserve(const struct lockbook *b, const struct lock_holder *h,
		     const struct lock_ask *ask, struct lock_spare *ret_spare);
void lockbook_unreserve(struct lock_spare *spare);

/** lockbook_apply() - Apply a lock or unlock request to the holder; frees the rest of @spare. */
void lockbook_apply(struct lockbook *b, struct lock_holder *h, const struct lock_ask *ask,
		    struct lock_spare *spare);

/* The lock at @at: a range of @list, or the gap before the next one, cut off at @end. */
struct lock_range lockbook_piece(const struct lock_range *list, uint64_t at, uint64_t end);

/* Returns the undo record for the change made by @token, if it was the holder's last one. The caller owns
 * its `was`. */
struct lock_undo lockbook_take_undo(struct lockbook *b, struct lock_holder *h, uint64_t token);
void lockbook_free_undo(struct lock_undo *u);

/**
 * lockbook_conflict() - Find a conflicting lock
 * @b: Book
 * @ask: What is wanted
 * @after: Only consider holders after this one; NULL: all
 * @ret_range: The conflicting range, or NULL; not set for whole files
 *
 * Return: its holder, or NULL if there is none.
 */
struct lock_holder *lockbook_conflict(const struct lockbook *b, const struct lock_ask *ask,
				      const struct lock_holder *after,
				      const struct lock_range **ret_range);

/** lockbook_deadlocks() - Would waiting for this cause a deadlock? */
bool lockbook_deadlocks(const struct lockbook *b, const struct lock_ask *ask);

#endif
