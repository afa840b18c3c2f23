/* SPDX-License-Identifier: Apache-2.0 */
/* All sessions that can be found: by their slot, by their name, and how many each user has. */
#ifndef XSBX_FS_SESSION_ROSTER_H
#define XSBX_FS_SESSION_ROSTER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv/tree.h>

#include "vm/base/record.h"

#define ROSTER_MAX  (1u << 16) /* sessions of a mount; see ino.h */
#define ROSTER_REST 4096u      /* so many others become free before a free one is used again */

struct conf_template;
struct session;
struct roster_slot;

/* A sum over all sessions of a user that was made a while ago, with all that was asked for since:
 * at least what it is now. For quota.c. */
struct roster_sum {
	uint64_t bytes;
	unsigned left; /* how often it may still be taken for that */
};

struct roster_user {
	uid_t uid;
	unsigned n, removed; /* both 0: nobody's entry */
	struct roster_sum texts, saved, disk;
};

/*
 * Theory of operation
 * -------------------
 * A session's slot is part of the inode numbers of its nodes, and so is the slot's generation,
 * which is another one for each session in it. Generations wrap, and an old number could then mean
 * another session: so slots are used in the order in which they became free, and there are always
 * many that rest, as long as there are any left.
 *
 * Each that became free or was taken is noted, for who writes them down.
 *
 * Slots take memory when they are first used; so does what is known of a user. All zeroes is an
 * empty table.
 */
struct roster {
	struct roster_slot *at;
	unsigned n;    /* that were ever used */
	unsigned room; /* for so many there is memory */
	unsigned nfree;
	uint32_t oldest, newest; /* of the free ones: the number and one more; 0: none */
	uint64_t last_freed;	 /* counts them */
	/* The first of those that came or went, and one more; see roster_touched(). */
	uint32_t touched;
	RB_HEAD(roster_named, session) named; /* by template and name */
	struct roster_user *users;
	unsigned nusers;
};

void roster_fini(struct roster *ro);

/* The session in slot @i of ro->n, or NULL. */
struct session *roster_at(const struct roster *ro, unsigned i);

struct session *roster_find(const struct roster *ro, const struct conf_template *t,
			    const char *name);

/* The first of a template's sessions by name, and the next one; NULL: there is none. */
struct session *roster_first(const struct roster *ro, const struct conf_template *t);
struct session *roster_next(struct session *s);

/* Looks for a free slot, and makes sure that roster_put() has all the memory that it needs for a
 * session of @uid. Return: the slot, -ENOSPC, -ENOMEM. */
int roster_reserve(struct roster *ro, uid_t uid);

/* Likewise of one that was in @slot before, in the daemon before this one, with that generation.
 * Return: @slot; -EINVAL if it can't be, or is taken; -ENOMEM. */
int roster_reserve_at(struct roster *ro, unsigned slot, unsigned generation, uid_t uid);

/* A session of @uid is removed, and was there before this daemon: behind it roster_forget().
 * Return: false if out of memory. */
bool roster_remember(struct roster *ro, uid_t uid);

/* The generation that the next session in @slot has. */
unsigned roster_generation(const struct roster *ro, unsigned slot);

/* @s has its slot, template, name and user, and is to be found from now on; it is removed, and open
 * handles may keep it; it is freed. */
void roster_put(struct roster *ro, struct session *s);
void roster_drop(struct roster *ro, struct session *s);
void roster_forget(struct roster *ro, const struct session *s);

/* What is known of a user, until sessions come or go; NULL: they have none, not even a removed
 * one. */
struct roster_user *roster_user(const struct roster *ro, uid_t uid);

/* Is it certainly no more than @limit with @more? Return: false, if that is to be found out. */
bool roster_sum_fits(struct roster_sum *sum, uint64_t more, uint64_t limit);
/* It was found out that it is @bytes now. */
void roster_sum_know(const struct roster *ro, struct roster_sum *sum, uint64_t bytes);

/* How many sessions a user has; @removed: of those that are removed, and not freed. */
unsigned roster_of(const struct roster *ro, uid_t uid, bool removed);

/* The first slot, or behind @at the next one, that became free or was taken since roster_noted(),
 * or ROSTER_MAX. */
unsigned roster_touched(const struct roster *ro);
unsigned roster_next_touched(const struct roster *ro, unsigned at);
void roster_noted(struct roster *ro);

/* Free slots, from the one on that has been for longest, likewise. */
unsigned roster_free(const struct roster *ro);
unsigned roster_next_free(const struct roster *ro, unsigned at);

/* For a daemon that comes after this one: appends fields of a slot. Return: false: it is not free,
 * and has none. */
bool roster_put_free(const struct roster *ro, unsigned slot, struct buf *out);

/* Likewise there, behind all sessions, in any order. Return: 0, -EBADMSG, -ENOMEM. */
int roster_get_free(struct roster *ro, uint64_t slot, struct record_reader fields);

/* Behind them. One that was left out is used no more, @ret_lost of them. Return: 0, -ENOMEM. */
int roster_join(struct roster *ro, unsigned *ret_lost);

#endif
