/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds and who waits for which locks. Used by the agent for files, by the daemon for its own nodes. */
#ifndef XSBX_AGENT_FILES_LOCKBOOK_H
#define XSBX_AGENT_FILES_LOCKBOOK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/protocol.h"

/*
 * Invariants
 * - A holder is one (file, owner). Its ranges are in order and do not overlap; neighbours of one type
 *   are one range.
 * - Ranges (fcntl) and the lock of the whole file (flock) have nothing to do with each other.
 * - `nranges` counts what there is, for a holder and in all, with what is kept to undo a change.
 *
 * Bounds
 * - A lock is refused when there are LOCKBOOK_HOLDERS or LOCKBOOK_RANGES, or its user has his share of
 *   them. It makes two ranges at most, so there may be one more.
 * - Giving back takes room only where it leaves a hole in the middle of a range. For that there is as much
 *   again, of the share and of all, so that it is not refused because locks took all there was.
 */

#define LOCKBOOK_HOLDERS 4096u
#define LOCKBOOK_RANGES	 65536u

/* What one user may have. */
struct lock_share {
	unsigned holders, ranges;
};

/* A file. In the daemon `dev` is 0. */
struct lock_file {
	uint64_t dev, ino;
};

/* What somebody wants. */
struct lock_ask {
	struct lock_file file;
	uint64_t owner;
	uint64_t start, end;
	enum proto_lock_type type;
	bool whole;
	uint32_t pid, uid;
	uint64_t handle; /* by which it is asked */
	uint64_t token;	 /* by which it can be undone, or 0 */
};

struct lock_range {
	struct lock_range *next;
	uint64_t start, end;
	enum proto_lock_type type;
};

/* The last change of a holder, and what it had there before. */
struct lock_undo {
	uint64_t token; /* 0: there is none */
	uint64_t start, end;
	struct lock_range *was;
	bool whole;
	enum proto_lock_type was_whole;
};

struct lock_holder {
	LIST_ENTRY(lock_holder) link;
	struct lock_file file;
	uint64_t owner;
	uint64_t handle; /* by which it got something last */
	uint32_t pid, uid;
	unsigned nranges;
	struct lock_undo undo;
	struct lock_range *ranges;
	enum proto_lock_type whole;
	unsigned waits; /* that will be its own: it is not empty yet */
	int fd;		/* the agent's; -1 in the daemon */
};

/* Embedded in whatever waits. */
struct lock_waiter {
	TAILQ_ENTRY(lock_waiter) link;
	struct lock_ask ask;
};

struct lockbook {
	LIST_HEAD(lock_holders, lock_holder) holders;
	TAILQ_HEAD(lock_waiters, lock_waiter) waiters; /* in the order of their coming */
	unsigned nholders, nranges;
	struct lock_share share;
};

/* Memory for a change, taken before it begins, so that it can't fail any more. */
struct lock_spare {
	struct lock_range *range[2];
};

/* A book that one user may fill. `share` may be made smaller afterwards. */
void lockbook_init(struct lockbook *b);

/** lockbook_find() - The holder of (@file, @owner), or NULL. */
struct lock_holder *lockbook_find(const struct lockbook *b, struct lock_file file, uint64_t owner);

/** lockbook_new() - A holder that holds nothing yet. Return: it, or NULL: out of memory, or too many. */
struct lock_holder *lockbook_new(struct lockbook *b, const struct lock_ask *ask);

/** lockbook_free() - Forget a holder with all it holds; its descriptor is the caller's. */
void lockbook_free(struct lockbook *b, struct lock_holder *h);

/** lockbook_empty() - Is there nothing that the holder has, or will have? */
bool lockbook_empty(const struct lock_holder *h);

/**
 * lockbook_reserve() - Take the memory for one lockbook_apply()
 * @b: Book
 * @h: Who is to have it, or NULL: somebody new
 * @ask: What is wanted
 * @ret_spare: Memory
 *
 * Return: 0 or -ENOLCK.
 */
int lockbook_reserve(const struct lockbook *b, const struct lock_holder *h,
		     const struct lock_ask *ask, struct lock_spare *ret_spare);
void lockbook_unreserve(struct lock_spare *spare);

/** lockbook_apply() - Give the holder what @ask says, or take it; frees what is left of @spare. */
void lockbook_apply(struct lockbook *b, struct lock_holder *h, const struct lock_ask *ask,
		    struct lock_spare *spare);

/* What is held from @at on: a range of @list or the hole before the next, cut off at @end. */
struct lock_range lockbook_piece(const struct lock_range *list, uint64_t at, uint64_t end);

/* Takes what undoes the change that was made by @token, if it was the holder's last one. Its `was` is the
 * caller's. */
struct lock_undo lockbook_take_undo(struct lockbook *b, struct lock_holder *h, uint64_t token);
void lockbook_free_undo(struct lock_undo *u);

/**
 * lockbook_conflict() - What is in the way
 * @b: Book
 * @ask: What is wanted
 * @after: Look only at holders behind this one; NULL: at all
 * @ret_range: The range in the way, or NULL; not for whole files
 *
 * Return: its holder, or NULL: nothing is.
 */
struct lock_holder *lockbook_conflict(const struct lockbook *b, const struct lock_ask *ask,
				      const struct lock_holder *after,
				      const struct lock_range **ret_range);

/** lockbook_deadlocks() - If this waited, would it wait for itself? */
bool lockbook_deadlocks(const struct lockbook *b, const struct lock_ask *ask);

#endif
