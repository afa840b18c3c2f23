/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which sandboxes may start now, and which wait. */
#include "admission.h"

#include <assert.h>
#include <stddef.h>

/*
 * Theory of operation
 * -------------------
 * A sandbox needs four things to start:
 *
 * - a place, of which there is a fixed number;
 * - memory within the budget. The budget exceeds the host's memory, because an idle clone uses a
 *   tenth of its maximum; snapshots count with their actual size;
 * - memory that the host really has: the machine's maximum, in addition to what starting sandboxes
 *   may still allocate, and a reserve. And the host must not be under memory pressure;
 * - a turn to start, because starting needs processor time. While runs use all processors,
 *   sandboxes start one by one: starting never stops completely because of runs.
 *
 * After a release, admission_next() is called until it returns NULL, so a sandbox that ends only
 * wakes those that fit into the gap.
 *
 * Nothing here reads a clock or the host: the present state is passed in `now`.
 */

void admission_init(struct admission *a, const struct admission_limits *limits)
{
	*a = (struct admission){.limits = *limits};
	TAILQ_INIT(&a->queue);
	TAILQ_INIT(&a->placed);
}

static bool is_own(enum admission_lack lack)
{
	return lack == LACK_OWN_PLACE || lack == LACK_OWN_MEMORY;
}

static struct admission_owner limits_of(const struct admission *a, uid_t owner)
{
	const struct admission_limits *l = &a->limits;

	for (size_t i = 0; i < l->nowners; i++)
		if (l->owners[i].owner == owner)
			return l->owners[i];
	return (struct admission_owner){owner, l->owner_places, l->owner_memory_mb};
}

static uint64_t owner_memory(const struct admission *a, uid_t owner)
{
	const uint64_t own = limits_of(a, owner).memory_mb;

	return own && own < a->limits.memory_mb ? own : a->limits.memory_mb;
}

bool admission_possible(const struct admission *a, const struct ticket *t)
{
	return a->limits.places > 0 && t->memory_mb <= owner_memory(a, t->owner);
}

bool admission_queue_room(const struct admission *a, uid_t owner)
{
	const struct ticket *t;
	unsigned n = 0;

	if (a->limits.queue && a->waiting >= a->limits.queue)
		return false;
	if (!a->limits.owner_queue || a->waiting < a->limits.owner_queue)
		return true;
	TAILQ_FOREACH(t, &a->queue, link)
		n += t->owner == owner;
	return n < a->limits.owner_queue;
}

void admission_wait(struct admission *a, struct ticket *t)
{
	assert(t->state == TICKET_NONE);
	t->state = TICKET_WAITING;
	t->number = ++a->last_number;
	t->pass = 0;
	TAILQ_INSERT_TAIL(&a->queue, t, link);
	a->waiting++;
	/* Until it was tried. */
	if (!admission_contended(a))
		a->lack = LACK_START;
}

/* What an owner has. */
struct holding {
	unsigned places;
	uint64_t memory_mb;
};

static struct holding holding_of(const struct admission *a, uid_t owner)
{
	struct holding h = {0};
	const struct ticket *t;

	TAILQ_FOREACH(t, &a->placed, link) {
		if (t->owner == owner) {
			h.places++;
			h.memory_mb += t->memory_mb;
		}
	}
	return h;
}

static enum admission_lack own_lack(const struct admission *a, const struct ticket *t)
{
	const struct holding h = holding_of(a, t->owner);
	const unsigned places = limits_of(a, t->owner).places;
	const uint64_t memory_mb = owner_memory(a, t->owner);

	if (places && h.places >= places)
		return LACK_OWN_PLACE;
	if (h.memory_mb + t->memory_mb > memory_mb && memory_mb < a->limits.memory_mb)
		return LACK_OWN_MEMORY;
	return LACK_NOTHING;
}

void admission_of(const struct admission *a, uid_t owner, struct admission_owner *ret_may,
		  struct admission_owner *ret_has)
{
	const struct holding h = holding_of(a, owner);

	*ret_may = limits_of(a, owner);
	*ret_has = (struct admission_owner){owner, h.places, h.memory_mb};
}

/* Whose turn it is, of the owners who were not looked at in this pass. */
static struct ticket *first_in_turn(const struct admission *a)
{
	struct ticket *t, *best = NULL;
	unsigned best_places = 0;

	TAILQ_FOREACH(t, &a->queue, link) {
		unsigned places;

		/* A later claim of the same owner is never better. */
		if (t->held || t->pass == a->passes || (best && t->owner == best->owner))
			continue;
		places = holding_of(a, t->owner).places;
		if (!best || places < best_places) {
			best = t;
			best_places = places;
		}
	}
	return best;
}

/* What nobody can have at present, whoever it is. */
static enum admission_lack common_lack(const struct admission *a)
{
	if (a->running >= a->limits.places)
		return LACK_PLACE;
	if (a->now.known && a->limits.pressure && a->now.pressure >= a->limits.pressure)
		return LACK_PRESSURE;
	if (a->starting >= a->limits.starting || (a->now.busy && a->starting))
		return LACK_START;
	return LACK_NOTHING;
}

static enum admission_lack memory_lack(const struct admission *a, unsigned memory_mb)
{
	if (a->memory_used_mb + a->now.sealed_mb + memory_mb > a->limits.memory_mb)
		return LACK_MEMORY;
	if (a->now.known && a->starting_mb + memory_mb + a->limits.floor_mb > a->now.available_mb)
		return LACK_HOST_MEMORY;
	return LACK_NOTHING;
}

static void grant(struct admission *a, struct ticket *t)
{
	TAILQ_REMOVE(&a->queue, t, link);
	TAILQ_INSERT_TAIL(&a->placed, t, link);
	t->state = TICKET_STARTING;
	a->waiting--;
	a->running++;
	a->starting++;
	a->memory_used_mb += t->memory_mb;
	a->starting_mb += t->memory_mb;
}

/* Nobody of this owner in this pass any more. */
static void pass_over(struct admission *a, uid_t owner)
{
	struct ticket *t;

	TAILQ_FOREACH(t, &a->queue, link) {
		if (t->owner == owner)
			t->pass = a->passes;
	}
}

struct ticket *admission_next(struct admission *a)
{
	enum admission_lack memory = LACK_NOTHING;
	uint64_t smaller_than = UINT64_MAX;
	struct ticket *t;

	a->passes++;
	a->lack = a->waiting ? common_lack(a) : LACK_NOTHING;
	if (a->lack)
		return NULL;
	while ((t = first_in_turn(a))) {
		enum admission_lack lack = own_lack(a, t);

		if (!lack && t->memory_mb < smaller_than) {
			lack = memory_lack(a, t->memory_mb);
			if (!lack) {
				grant(a, t);
				return t;
			}
			smaller_than = t->memory_mb;
			memory = memory ? memory : lack;
		} else if (!a->lack) {
			a->lack = lack;
		}
		pass_over(a, t->owner);
	}
	/* An owner's own limit concerns nobody else. */
	a->lack = memory ? memory : a->lack;
	return NULL;
}

enum admission_lack admission_why(const struct admission *a, const struct ticket *t)
{
	const enum admission_lack own = own_lack(a, t);

	return own ? own : a->lack;
}

/* How many of the same owner came before. */
static unsigned rank_of(const struct admission *a, const struct ticket *t)
{
	unsigned n = holding_of(a, t->owner).places;
	const struct ticket *u;

	TAILQ_FOREACH(u, &a->queue, link) {
		if (u == t)
			break;
		n += u->owner == t->owner;
	}
	return n;
}

unsigned admission_turn(const struct admission *a, const struct ticket *t)
{
	const unsigned rank = rank_of(a, t);
	const struct ticket *u;
	unsigned n = 1;

	TAILQ_FOREACH(u, &a->queue, link) {
		if (u->owner == t->owner) {
			n += u->number < t->number;
		} else {
			const unsigned other = rank_of(a, u);

			n += other < rank || (other == rank && u->number < t->number);
		}
	}
	return n;
}

bool admission_contended(const struct admission *a)
{
	return a->waiting && a->lack && !is_own(a->lack);
}

bool admission_own_room(const struct admission *a, uid_t owner, unsigned memory_mb)
{
	const struct ticket claim = {.owner = owner, .memory_mb = memory_mb};

	return !own_lack(a, &claim);
}

bool admission_room(const struct admission *a, unsigned memory_mb)
{
	return !admission_contended(a) && a->running < a->limits.places &&
	       (!a->now.known || !a->limits.pressure || a->now.pressure < a->limits.pressure) &&
	       !memory_lack(a, memory_mb);
}

void admission_place(struct admission *a, struct ticket *t)
{
	assert(admission_room(a, t->memory_mb));
	admission_charge(a, t);
}

void admission_charge(struct admission *a, struct ticket *t)
{
	assert(t->state == TICKET_NONE);
	TAILQ_INSERT_TAIL(&a->placed, t, link);
	t->state = TICKET_RUNNING;
	a->running++;
	a->memory_used_mb += t->memory_mb;
}

bool admission_full(const struct admission *a)
{
	return a->waiting && (a->lack == LACK_PLACE || a->lack == LACK_MEMORY ||
			      a->lack == LACK_HOST_MEMORY || a->lack == LACK_PRESSURE);
}

void admission_started(struct admission *a, struct ticket *t)
{
	if (t->state != TICKET_STARTING)
		return;
	t->state = TICKET_RUNNING;
	a->starting--;
	a->starting_mb -= t->memory_mb;
}

void admission_move(struct admission *a, struct ticket *from, struct ticket *to)
{
	assert(from->state == TICKET_RUNNING && to->state == TICKET_NONE &&
	       from->memory_mb == to->memory_mb);
	TAILQ_REMOVE(&a->placed, from, link);
	from->state = TICKET_NONE;
	to->state = TICKET_RUNNING;
	TAILQ_INSERT_TAIL(&a->placed, to, link);
}

void admission_release(struct admission *a, struct ticket *t)
{
	switch (t->state) {
	case TICKET_NONE: return;
	case TICKET_WAITING:
		TAILQ_REMOVE(&a->queue, t, link);
		a->waiting--;
		break;
	case TICKET_STARTING:
		a->starting--;
		a->starting_mb -= t->memory_mb;
		__attribute__((fallthrough));
	case TICKET_RUNNING:
		TAILQ_REMOVE(&a->placed, t, link);
		a->running--;
		a->memory_used_mb -= t->memory_mb;
		break;
	}
	t->state = TICKET_NONE;
}
