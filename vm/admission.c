/* SPDX-License-Identifier: Apache-2.0 */
/* Who may have a sandbox now, and who waits. */
#include "admission.h"

#include <assert.h>
#include <stddef.h>

void admission_init(struct admission *a, unsigned max, unsigned max_starting, uint64_t memory_mb)
{
	*a = (struct admission){.max = max, .max_starting = max_starting, .memory_mb = memory_mb};
	TAILQ_INIT(&a->queue);
	TAILQ_INIT(&a->placed);
}

bool admission_possible(const struct admission *a, const struct ticket *t)
{
	return a->max > 0 && t->memory_mb <= a->memory_mb;
}

void admission_wait(struct admission *a, struct ticket *t)
{
	assert(t->state == TICKET_NONE);
	t->state = TICKET_WAITING;
	t->number = ++a->last_number;
	TAILQ_INSERT_TAIL(&a->queue, t, link);
	a->waiting++;
}

static unsigned places_of(const struct admission *a, uid_t owner)
{
	const struct ticket *t;
	unsigned n = 0;

	TAILQ_FOREACH(t, &a->placed, link)
		n += t->owner == owner;
	return n;
}

/* Whose turn it is. */
static struct ticket *first_in_turn(struct admission *a)
{
	struct ticket *t, *best = NULL;
	unsigned best_places = 0;

	TAILQ_FOREACH(t, &a->queue, link) {
		unsigned places;

		/* A later claim of the same owner is never better. */
		if (best && t->owner == best->owner)
			continue;
		places = places_of(a, t->owner);
		if (!best || places < best_places) {
			best = t;
			best_places = places;
		}
	}
	return best;
}

struct ticket *admission_next(struct admission *a)
{
	struct ticket *t;

	if (a->running >= a->max || a->starting >= a->max_starting)
		return NULL;
	t = first_in_turn(a);
	if (!t || a->memory_used_mb + t->memory_mb > a->memory_mb)
		return NULL;
	TAILQ_REMOVE(&a->queue, t, link);
	TAILQ_INSERT_TAIL(&a->placed, t, link);
	t->state = TICKET_STARTING;
	a->waiting--;
	a->running++;
	a->starting++;
	a->memory_used_mb += t->memory_mb;
	return t;
}

bool admission_room(const struct admission *a, unsigned memory_mb)
{
	return !a->waiting && a->running < a->max && a->memory_used_mb + memory_mb <= a->memory_mb;
}

void admission_place(struct admission *a, struct ticket *t)
{
	assert(t->state == TICKET_NONE && admission_room(a, t->memory_mb));
	TAILQ_INSERT_TAIL(&a->placed, t, link);
	t->state = TICKET_RUNNING;
	a->running++;
	a->memory_used_mb += t->memory_mb;
}

bool admission_full(struct admission *a)
{
	const struct ticket *t = first_in_turn(a);

	return t && (a->running >= a->max || a->memory_used_mb + t->memory_mb > a->memory_mb);
}

void admission_started(struct admission *a, struct ticket *t)
{
	if (t->state != TICKET_STARTING)
		return;
	t->state = TICKET_RUNNING;
	a->starting--;
}

void admission_release(struct admission *a, struct ticket *t)
{
	switch (t->state) {
	case TICKET_NONE: return;
	case TICKET_WAITING:
		TAILQ_REMOVE(&a->queue, t, link);
		a->waiting--;
		break;
	case TICKET_STARTING: a->starting--; __attribute__((fallthrough));
	case TICKET_RUNNING:
		TAILQ_REMOVE(&a->placed, t, link);
		a->running--;
		a->memory_used_mb -= t->memory_mb;
		break;
	}
	t->state = TICKET_NONE;
}
