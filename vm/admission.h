/* SPDX-License-Identifier: Apache-2.0 */
/* Who may have a sandbox now, and who waits: places, memory, and fairness between owners. */
#ifndef XSBX_ADMISSION_H
#define XSBX_ADMISSION_H

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
	enum ticket_state state;
	uint64_t number; /* order of arrival */
	TAILQ_ENTRY(ticket) link;
};

TAILQ_HEAD(ticket_list, ticket);

/*
 * - running counts tickets that are STARTING or RUNNING, memory_mb is the sum of theirs.
 * - starting <= running <= max; starting <= max_starting; memory_used_mb <= memory_mb.
 */
struct admission {
	unsigned max;	       /* places */
	unsigned max_starting; /* of these, how many may start at the same time */
	uint64_t memory_mb;    /* budget */
	unsigned running, starting, waiting;
	uint64_t memory_used_mb;
	uint64_t last_number;
	struct ticket_list queue; /* WAITING, in the order of their arrival */
	struct ticket_list placed;
};

void admission_init(struct admission *a, unsigned max, unsigned max_starting, uint64_t memory_mb);

/* Could it ever be admitted? */
bool admission_possible(const struct admission *a, const struct ticket *t);

void admission_wait(struct admission *a, struct ticket *t);

/**
 * admission_next() - Give a place to one who waits
 * @a: Admission
 *
 * Of the owners who wait, the one with the fewest places comes first; among equals, and among the
 * claims of one owner, who came first. A claim that does not fit lets no other overtake it, or a
 * large one would never have its turn.
 *
 * Return: The ticket, now STARTING, or NULL if nobody can have one at present.
 */
struct ticket *admission_next(struct admission *a);

/* Is there room for somebody who can do without, and does nobody wait? */
bool admission_room(const struct admission *a, unsigned memory_mb);

/* Gives a place to a claim in state TICKET_NONE, for which there is room. It is not counted as
 * starting: it keeps nobody else from it. */
void admission_place(struct admission *a, struct ticket *t);

/* Does somebody wait for room, and not just for others to have started? */
bool admission_full(struct admission *a);

/* It has started: another may. */
void admission_started(struct admission *a, struct ticket *t);

/* Gives up a place, or the wait for one; TICKET_NONE again. */
void admission_release(struct admission *a, struct ticket *t);

#endif
