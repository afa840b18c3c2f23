/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which sandboxes may start now and which wait: by places, memory, and fairness between
 * owners. */
#ifndef XSBX_VM_HOST_ADMISSION_H
#define XSBX_VM_HOST_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

enum ticket_state { TICKET_NONE, TICKET_WAITING, TICKET_STARTING, TICKET_RUNNING };

/* A claim to a place. Embedded by its owner, zeroed; `owner` and `memory_mb` set before
 * admission_wait(). */
struct ticket {
	uid_t owner;
	unsigned memory_mb; /* of the host's memory, in total */
	bool held;	    /* it could not be started yet: it waits behind all others */
	enum ticket_state state;
	uint64_t number;		    /* order of arrival */
	uint64_t pass;			    /* for admission_next(): already examined */
	void (*admitted)(struct ticket *t); /* called by the caller of admission_next() */
	TAILQ_ENTRY(ticket) link;
};

TAILQ_HEAD(ticket_list, ticket);

/* What waiting tickets lack. */
enum admission_lack {
	LACK_NOTHING,
	LACK_PLACE,	  /* all are taken */
	LACK_OWN_PLACE,	  /* the owner has reached his limit */
	LACK_MEMORY,	  /* the budget of all sandboxes is used up */
	LACK_OWN_MEMORY,  /* the owner has reached his limit of memory */
	LACK_HOST_MEMORY, /* the host does not have enough available */
	LACK_PRESSURE,	  /* the host is slow because memory is short */
	LACK_START,	  /* others are starting, or the processors are busy */
	ADMISSION_NLACKS,
};

/* What one owner may have; 0: no limit. */
struct admission_owner {
	uid_t owner;
	unsigned places;
	uint64_t memory_mb;
};

/* Constant, set by the embedding struct. 0 means no limit where noted. */
struct admission_limits {
	unsigned places;
	unsigned starting;	  /* most that may start at the same time */
	unsigned owner_places;	  /* of one owner; 0: all */
	uint64_t memory_mb;	  /* budget of all sandboxes */
	uint64_t owner_memory_mb; /* of one owner; 0: all */
	const struct admission_owner
		*owners; /* for whom other limits count than these two; not owned */
	size_t nowners;
	unsigned queue;	      /* most that may wait; 0: no limit */
	unsigned owner_queue; /* of one owner; 0: no limit */
	uint64_t floor_mb;    /* of the host's memory, to be left free */
	unsigned pressure;    /* hundredths of a percent at which nothing is admitted */
};

/* The present state; set before admission_next() and admission_room(). */
struct admission_now {
	bool known;	       /* the next two are known */
	uint64_t available_mb; /* of the host's memory */
	unsigned pressure;     /* hundredths of a percent; 0 if unknown */
	uint64_t sealed_mb;    /* held by snapshots */
	bool busy;	       /* runs use all processors: only one may start at a time */
};

/*
 * - running is the number of tickets STARTING or RUNNING, memory_used_mb their memory, and
 *   starting_mb the memory of those STARTING.
 * - starting <= running; starting <= limits.starting. But for what was there before, see
 *   admission_charge(), running <= places and memory_used_mb <= memory_mb.
 */
struct admission {
	struct admission_limits limits;
	struct admission_now now;
	unsigned running, starting, waiting;
	uint64_t memory_used_mb, starting_mb;
	uint64_t last_number, passes;
	enum admission_lack lack; /* of waiting tickets, at the last attempt */
	struct ticket_list queue; /* WAITING, in order of arrival */
	struct ticket_list placed;
};

void admission_init(struct admission *a, const struct admission_limits *limits);

/* Could it ever be admitted? */
bool admission_possible(const struct admission *a, const struct ticket *t);

/* Is there room in the queue for one more of this owner? */
bool admission_queue_room(const struct admission *a, uid_t owner);

void admission_wait(struct admission *a, struct ticket *t);

/**
 * admission_next() - Give a place to a waiting ticket
 * @a: Admission
 *
 * The waiting owner with the fewest places comes first; ties, and tickets of one owner, are served in
 * order of arrival. A ticket whose memory does not fit blocks later ones of its owner, and others'
 * that are not smaller. Otherwise it would never get its turn, or one large ticket could block
 * everybody else. Sets `lack` if tickets have to keep waiting.
 *
 * Return: The ticket, now STARTING, or NULL if none can be admitted at present.
 */
struct ticket *admission_next(struct admission *a);

/* Why this one waits: its owner's limit, or what is lacking in general. */
enum admission_lack admission_why(const struct admission *a, const struct ticket *t);

/* Its position in the queue; 1 is the next to be served. */
unsigned admission_turn(const struct admission *a, const struct ticket *t);

/* What an owner may have: 0 where there is no limit but that of all; and what he has. @ret_has->owner is set, too. */
void admission_of(const struct admission *a, uid_t owner, struct admission_owner *ret_may,
		  struct admission_owner *ret_has);

/* Does an owner wait for another reason than his own limit? Then free resources go to waiting
 * tickets. */
bool admission_contended(const struct admission *a);

/* Does the owner's limit allow one more? */
bool admission_own_room(const struct admission *a, uid_t owner, unsigned memory_mb);

/* Is there room for something optional, that no ticket waits for? */
bool admission_room(const struct admission *a, unsigned memory_mb);

/* Gives a place to a ticket in state TICKET_NONE, for which there is room. It does not count as
 * starting, so it keeps no other from starting. */
void admission_place(struct admission *a, struct ticket *t);

/* Likewise, whether there is room or not: its sandbox runs already, started by another process. */
void admission_charge(struct admission *a, struct ticket *t);

/* Does a ticket wait for room that ending a sandbox would free, and not just for others to finish
 * starting? */
bool admission_full(const struct admission *a);

/* It has started: another may start. */
void admission_started(struct admission *a, struct ticket *t);

/* Moves the place of @from to @to, which has none; it then counts for the owner of @to. */
void admission_move(struct admission *a, struct ticket *from, struct ticket *to);

/* Gives up a place, or stops waiting; TICKET_NONE again. */
void admission_release(struct admission *a, struct ticket *t);

#endif
