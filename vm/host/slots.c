/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which runs may use the processors now. */
#include "slots.h"

#include <stddef.h>

#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * The time limit of a run is meant for its own work. If forty runs share two processors, each gets a
 * twentieth of what it would get alone, and runs that would take two seconds are cut off at thirty.
 * So runs are queued, outside their sandboxes, until it is their turn, and their time starts when
 * their code is sent.
 *
 * While the busy runs together use no more processors than the budget, none waits. When it is used
 * up, runs are started as others end, and a run that has waited for a second is started anyway: then
 * the processors are shared, which makes a short run after long ones slow instead of late. This is
 * limited by `most`: beyond it a run waits until another has ended. An owner's run does not wait at
 * all if he has no other busy run: he should not suffer from another's burst, or from another's runs
 * that never end.
 *
 * Only runs that compute count. A run that sleeps, or waits for a connection, would otherwise block
 * others for nothing. Processor use is sampled only while runs wait; a run that has demanded less than
 * a fifth of a processor since the last sample is not busy. Demand counts, not usage, because many runs
 * that share the processors would otherwise look idle.
 */

#define BUSY_PERCENT 20u

void slots_init(struct slots *ss, unsigned budget, unsigned most)
{
	*ss = (struct slots){.budget = MAX(budget, 1u), .most = MAX(most, budget)};
	TAILQ_INIT(&ss->queue);
	TAILQ_INIT(&ss->holders);
}

/* One that asks for more than there is gets all of it. */
static unsigned charge_of(const struct slots *ss, const struct slot *s)
{
	return MIN(s->cpus, ss->budget);
}

static void set_busy(struct slots *ss, struct slot *s, bool busy)
{
	if (s->busy == busy)
		return;
	s->busy = busy;
	if (busy) {
		ss->busy++;
		ss->used += s->charge;
	} else {
		ss->busy--;
		ss->used -= s->charge;
	}
}

static void hold(struct slots *ss, struct slot *s)
{
	TAILQ_INSERT_TAIL(&ss->holders, s, link);
	ss->held++;
	s->state = SLOT_HELD;
	s->charge = charge_of(ss, s);
	s->sampled = false;
	set_busy(ss, s, true);
}

void slots_hold(struct slots *ss, struct slot *s)
{
	if (s->state == SLOT_NONE)
		hold(ss, s);
}

static bool fits(const struct slots *ss, const struct slot *s)
{
	return !ss->used || ss->used + charge_of(ss, s) <= ss->budget;
}

bool slots_take(struct slots *ss, struct slot *s, uint64_t now)
{
	if (s->state == SLOT_HELD)
		return true;
	if (s->state == SLOT_WAITING)
		return false;
	if (!ss->waiting && fits(ss, s)) {
		hold(ss, s);
		return true;
	}
	s->state = SLOT_WAITING;
	s->number = ++ss->last_number;
	s->since = now;
	TAILQ_INSERT_TAIL(&ss->queue, s, link);
	ss->waiting++;
	return false;
}

/* How many busy slots an owner has. */
static unsigned held_by(const struct slots *ss, uid_t owner)
{
	const struct slot *s;
	unsigned n = 0;

	TAILQ_FOREACH(s, &ss->holders, link)
		n += s->owner == owner && s->busy;
	return n;
}

struct slot *slots_next(struct slots *ss, uint64_t now)
{
	struct slot *s, *best = NULL;
	unsigned fewest = 0;

	TAILQ_FOREACH(s, &ss->queue, link) {
		unsigned n;

		if (best && s->owner == best->owner)
			continue;
		n = held_by(ss, s->owner);
		if (!best || n < fewest) {
			best = s;
			fewest = n;
		}
	}
	if (!best)
		return NULL;
	if (!fits(ss, best) && fewest &&
	    (ss->used + charge_of(ss, best) > ss->most || now - best->since < SLOTS_PATIENCE_MS))
		return NULL;
	TAILQ_REMOVE(&ss->queue, best, link);
	ss->waiting--;
	hold(ss, best);
	return best;
}

static unsigned rank_of(const struct slots *ss, const struct slot *s)
{
	unsigned n = held_by(ss, s->owner);
	const struct slot *u;

	TAILQ_FOREACH(u, &ss->queue, link) {
		if (u == s)
			break;
		n += u->owner == s->owner;
	}
	return n;
}

unsigned slots_turn(const struct slots *ss, const struct slot *s)
{
	const unsigned rank = rank_of(ss, s);
	const struct slot *u;
	unsigned n = 1;

	TAILQ_FOREACH(u, &ss->queue, link) {
		const unsigned other = rank_of(ss, u);

		n += other < rank || (other == rank && u->number < s->number);
	}
	return n;
}

void slots_sample(struct slots *ss, struct slot *s, uint64_t demand_ms, uint64_t now)
{
	if (s->state != SLOT_HELD)
		return;
	if (s->sampled && now - s->sampled_at < SLOTS_SAMPLE_MS / 2)
		return; /* too short a time to tell */
	if (s->sampled) {
		const uint64_t more = demand_ms > s->demand_ms ? demand_ms - s->demand_ms : 0;

		set_busy(ss, s, more * 100 >= (now - s->sampled_at) * BUSY_PERCENT);
	}
	s->sampled = true;
	s->demand_ms = demand_ms;
	s->sampled_at = now;
}

void slots_release(struct slots *ss, struct slot *s)
{
	switch (s->state) {
	case SLOT_NONE: return;
	case SLOT_WAITING:
		TAILQ_REMOVE(&ss->queue, s, link);
		ss->waiting--;
		break;
	case SLOT_HELD:
		set_busy(ss, s, false);
		TAILQ_REMOVE(&ss->holders, s, link);
		ss->held--;
		break;
	}
	s->state = SLOT_NONE;
}
