/* SPDX-License-Identifier: Apache-2.0 */
/* What was changed in this turn of the loop. See touched.h. */
#include "touched.h"

#include <errno.h>
#include <stdlib.h>

#include "vm/base/turn.h"
#include "vm/base/util.h"

void touched_init(struct touched *t, struct turn *turn)
{
	*t = (struct touched){.turn = turn};
	for (unsigned i = 0; i < TOUCHED_NKINDS; i++)
		TAILQ_INIT(&t->list[i]);
}

void touched_fini(struct touched *t)
{
	free(t->gone);
	t->gone = NULL;
	t->ngone = t->cap = 0;
}

bool touched_is_on(const struct touched *t)
{
	return t && turn_is_on(t->turn);
}

struct turn *touched_turn(const struct touched *t)
{
	return t ? t->turn : NULL;
}

struct touch *touched_first(const struct touched *t, enum touched_kind kind)
{
	return TAILQ_FIRST(&t->list[kind]);
}

void touched_add(struct touched *t, enum touched_kind kind, struct touch *what)
{
	if (what->on || !touched_is_on(t))
		return;
	what->on = true;
	TAILQ_INSERT_TAIL(&t->list[kind], what, link);
	turn_due(t->turn);
}

void touched_take(struct touched *t, enum touched_kind kind, struct touch *what)
{
	if (!what->on)
		return;
	what->on = false;
	TAILQ_REMOVE(&t->list[kind], what, link);
}

void touched_add_gone(struct touched *t, enum touched_kind kind, uint64_t key, uint64_t id)
{
	struct touched_gone *more;
	size_t cap;

	if (!touched_is_on(t))
		return;
	cap = t->cap ? 2 * t->cap : 64;
	turn_due(t->turn);
	if (t->ngone == t->cap) {
		more = reallocarray(t->gone, cap, sizeof(*more));
		if (!more) {
			t->failed = -ENOMEM;
			return;
		}
		t->gone = more;
		t->cap = cap;
	}
	t->gone[t->ngone++] = (struct touched_gone){kind, key, id};
}

uint64_t touched_id(struct touched *t, uint64_t *id)
{
	if (!*id)
		*id = ++t->last_id;
	return *id;
}

void touched_has_id(struct touched *t, uint64_t id)
{
	t->last_id = MAX(t->last_id, id);
}
