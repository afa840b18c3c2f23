/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which runs may use the processors now, and which wait for their turn. */
#ifndef XSBX_VM_HOST_SLOTS_H
#define XSBX_VM_HOST_SLOTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

enum slot_state { SLOT_NONE, SLOT_WAITING, SLOT_HELD };

/* A claim to processors for one run. Embedded, zeroed; `owner` and `cpus` set before slots_take(). */
struct slot {
	uid_t owner;
	unsigned cpus; /* hundredths of a processor */
	enum slot_state state;
	bool busy;	 /* HELD: it counts against the budget */
	unsigned charge; /* HELD: how much it counts */
	uint64_t number; /* order of arrival */
	uint64_t since;	 /* ms: start of WAITING */
	bool sampled;	 /* the next two are set */
	uint64_t demand_ms, sampled_at;
	void (*held)(struct slot *s); /* called by the caller of slots_next() */
	TAILQ_ENTRY(slot) link;
};

TAILQ_HEAD(slot_list, slot);

/* busy is the number of busy slots among those HELD, and used the sum of their charges. */
struct slots {
	unsigned budget; /* hundredths of a processor that runs get without waiting */
	unsigned most;	 /* ... after SLOTS_PATIENCE_MS; an owner's first has no limit */
	unsigned used, busy, held, waiting;
	uint64_t last_number;
	struct slot_list queue; /* in order of arrival */
	struct slot_list holders;
};

#define SLOTS_PATIENCE_MS 1000u
#define SLOTS_SAMPLE_MS	  250u /* interval of slots_sample() calls while any wait */

void slots_init(struct slots *ss, unsigned budget, unsigned most);

/**
 * slots_take() - Claim processors for a run that is about to start
 * @ss: Slots
 * @s: Claim; if it is HELD already, it stays so
 * @now: ms
 *
 * Return: true if it is HELD, false if it waits: slots_next() will return it later.
 */
bool slots_take(struct slots *ss, struct slot *s, uint64_t now);

/* It has them, whether there are any or not: it runs already, started by another process. */
void slots_hold(struct slots *ss, struct slot *s);

/* Gives processors to a waiting claim; the owner with the fewest slots comes first, then the
 * earliest. Return: the claim, now HELD, or NULL if none can be served at present. */
struct slot *slots_next(struct slots *ss, uint64_t now);

/* Its position in the queue, from 1. */
unsigned slots_turn(const struct slots *ss, const struct slot *s);

/* Reports that the run's sandbox has used or waited for processors for @demand_ms so far. A run that
 * waits for something else does not count as busy until it computes again. */
void slots_sample(struct slots *ss, struct slot *s, uint64_t demand_ms, uint64_t now);

/* Releases the claim, HELD or WAITING. */
void slots_release(struct slots *ss, struct slot *s);

#endif
