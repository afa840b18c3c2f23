/* SPDX-License-Identifier: Apache-2.0 */
/* Which runs may have the processors now, and which wait for their turn. */
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
	bool busy;	 /* HELD: counts against the budget */
	unsigned charge; /* HELD: how much it counts */
	uint64_t number; /* order of arrival */
	uint64_t since;	 /* ms: WAITING since then */
	bool sampled;	 /* the two below are set */
	uint64_t demand_ms, sampled_at;
	void (*held)(struct slot *s); /* is now; by whoever calls slots_next() */
	TAILQ_ENTRY(slot) link;
};

TAILQ_HEAD(slot_list, slot);

/* busy is how many of those HELD are busy, and used the sum of their charges. */
struct slots {
	unsigned budget; /* hundredths of a processor that runs may have without waiting */
	unsigned most;	 /* and after SLOTS_PATIENCE_MS; an owner's first has no limit */
	unsigned used, busy, held, waiting;
	uint64_t last_number;
	struct slot_list queue; /* in the order of their arrival */
	struct slot_list holders;
};

#define SLOTS_PATIENCE_MS 1000u
#define SLOTS_SAMPLE_MS	  250u /* how often slots_sample() is worth calling while somebody waits */

void slots_init(struct slots *ss, unsigned budget, unsigned most);

/**
 * slots_take() - Claim processors for a run that would begin now
 * @ss: Slots
 * @s: Claim; one that is HELD already keeps what it has
 * @now: ms
 *
 * Return: true if it has them, false if it waits: slots_next() will give it out.
 */
bool slots_take(struct slots *ss, struct slot *s, uint64_t now);

/* Gives processors to one that waits; of the owners the one with the fewest slots, then the one who
 * came first. Return: it, now HELD, or NULL if nobody can have any at present. */
struct slot *slots_next(struct slots *ss, uint64_t now);

/* How many would come before this one, and it. */
unsigned slots_turn(const struct slots *ss, const struct slot *s);

/* The run's sandbox has wanted processors for @demand_ms so far: one that waits for something else
 * does not count as busy, until it computes again. */
void slots_sample(struct slots *ss, struct slot *s, uint64_t demand_ms, uint64_t now);

/* Gives up what it has or waits for. */
void slots_release(struct slots *ss, struct slot *s);

#endif
