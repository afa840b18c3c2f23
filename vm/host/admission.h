/* SPDX-License-Identifier: Apache-2.0 */
/* Who may have a sandbox now, and who waits: places, memory, and fairness between owners. */
#ifndef XSBX_VM_HOST_ADMISSION_H
#define XSBX_VM_HOST_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

enum ticket_state { TICKET_NONE, TICKET_WAITING, TICKET_STARTING, TICKET_RUNNING };

/* A claim to a place. Embedded by its owner, zeroed; `owner` and `memory_mb` set before
 * admission_wait(). */
struct ticket {
	uid_t owner;
	unsigned memory_mb; /* of the host, all told */
	bool held;	    /* nothing could be started yet: it waits behind all others */
	enum ticket_state state;
	uint64_t number;		    /* order of arrival */
	uint64_t pass;			    /* for admission_next(): was looked at */
	void (*admitted)(struct ticket *t); /* by whoever calls admission_next() */
	TAILQ_ENTRY(ticket) link;
};

TAILQ_HEAD(ticket_list, ticket);

/* What those who wait lack. */
enum admission_lack {
	LACK_NOTHING,
	LACK_PLACE,	  /* all are taken */
	LACK_OWN_PLACE,	  /* the owner has as many as one may have */
	LACK_MEMORY,	  /* all that sandboxes may have together is promised */
	LACK_OWN_MEMORY,  /* the owner was promised as much as one may have */
	LACK_HOST_MEMORY, /* the host really has not enough */
	LACK_PRESSURE,	  /* the host is short of memory, and slow for it */
	LACK_START,	  /* others are starting, or processors are busy */
	ADMISSION_NLACKS,
};

/* Set by whoever embeds it, and fixed. 0 is no limit where it says so. */
struct admission_limits {
	unsigned places;
	unsigned starting;	  /* how many may start at the same time */
	unsigned owner_places;	  /* of one owner; 0: all */
	uint64_t memory_mb;	  /* budget: what may be promised */
	uint64_t owner_memory_mb; /* of one owner; 0: all */
	unsigned queue;		  /* how many may wait; 0: no limit */
	unsigned owner_queue;	  /* of one owner; 0: no limit */
	uint64_t floor_mb;	  /* of the host's memory, never to be used up */
	unsigned pressure;	  /* hundredths of a per cent from which on nobody is let in */
};

/* How things are; set before admission_next() and admission_room(). */
struct admission_now {
	bool known;	       /* the two below are */
	uint64_t available_mb; /* of the host's memory */
	unsigned pressure;     /* hundredths of a per cent; 0 if nobody knows */
	uint64_t sealed_mb;    /* held by snapshots */
	bool busy;	       /* what runs has the processors: one may start at a time, no more */
};

/*
 * - running counts tickets that are STARTING or RUNNING, memory_used_mb is the sum of theirs, and
 *   starting_mb that of those that are STARTING.
 * - starting <= running <= places; starting <= limits.starting; memory_used_mb <= memory_mb.
 */
struct admission {
	struct admission_limits limits;
	struct admission_now now;
	unsigned running, starting, waiting;
	uint64_t memory_used_mb, starting_mb;
	uint64_t last_number, passes;
	enum admission_lack lack; /* of those who wait, when it was last tried */
	struct ticket_list queue; /* WAITING, in the order of their arrival */
	struct ticket_list placed;
};

void admission_init(struct admission *a, const struct admission_limits *limits);

/* Could it ever be admitted? */
bool admission_possible(const struct admission *a, const struct ticket *t);

/* Is there room in the queue for one more of this owner? */
bool admission_queue_room(const struct admission *a, uid_t owner);

void admission_wait(struct admission *a, struct ticket *t);

/**
 * admission_next() - Give a place to one who waits
 * @a: Admission
 *
 * Of the owners who wait, the one with the fewest places comes first; among equals, and among the
 * claims of one owner, who came first. A claim for memory that does not fit keeps back the owner's
 * later ones, and those of others that are not smaller: or it would never have its turn, or one
 * large claim could keep everybody else waiting. Sets `lack` if somebody has to go on waiting.
 *
 * Return: The ticket, now STARTING, or NULL if nobody can have one at present.
 */
struct ticket *admission_next(struct admission *a);

/* Why this one waits: its owner's own limit, or what is lacking in general. */
enum admission_lack admission_why(const struct admission *a, const struct ticket *t);

/* How many would come before this one, and it: 1 is the first in turn. */
unsigned admission_turn(const struct admission *a, const struct ticket *t);

/* Does somebody wait for more than what his own limit keeps from him? Then whatever there is goes to
 * those who wait. */
bool admission_contended(const struct admission *a);

/* Does the owner's own limit allow one more? */
bool admission_own_room(const struct admission *a, uid_t owner, unsigned memory_mb);

/* Is there room for somebody who can do without, and does nobody wait for it? */
bool admission_room(const struct admission *a, unsigned memory_mb);

/* Gives a place to a claim in state TICKET_NONE, for which there is room. It is not counted as
 * starting: it keeps nobody else from it. */
void admission_place(struct admission *a, struct ticket *t);

/* Does somebody wait for room that a sandbox less would give, and not just for others to have
 * started? */
bool admission_full(const struct admission *a);

/* It has started: another may. */
void admission_started(struct admission *a, struct ticket *t);

/* Gives the place of @from, which has one, to @to, which has none, for its own owner. */
void admission_move(struct admission *a, struct ticket *from, struct ticket *to);

/* Gives up a place, or the wait for one; TICKET_NONE again. */
void admission_release(struct admission *a, struct ticket *t);

#endif
