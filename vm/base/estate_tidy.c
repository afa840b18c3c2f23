/* SPDX-License-Identifier: Apache-2.0 */
/* Copies what counts to the other area, when most of the first does not. See estate.h. */
#include <errno.h>

#include "estate_internal.h"
#include "util.h"

#define STEP	   (1ull << 20) /* that are copied at a commit, at least, beside twice what was written */
#define PUNCH	   (8ull << 20) /* that are given back at once */

/* Bytes of an area that are not worth the work: they stay in both. */
#define LEAST	   (1ull << 20)
#define LEAST_BUSY (8ull << 20)
#define RESTED	   256u /* commits */

static unsigned other(const struct estate *e)
{
	return e->active ^ 1;
}

/* It does not get the memory for that, or begins anew: what is in the other area was never
 * anything. */
static void abandon(struct estate *e)
{
	e->moving = false;
	e->tidy_at = e->area[e->active].tail * 2;
	e->area[other(e)].tail = 0;
}

static void begin(struct estate *e)
{
	e->moving = true;
	e->move++;
	e->cursor = TAILQ_FIRST(&e->items);
	e->area[other(e)].tail = 0;
}

/* Return: 0 or -errno. */
static int copy(struct estate *e, struct estate_item *it)
{
	const struct estate_entry *from = estate_entry_at(e, e->active, it->at[e->active]);

	it->move = e->move;
	return estate_append(e, other(e), it, false, from + 1, it->len, &it->at[other(e)]);
}

void estate_move_too(struct estate *e, struct estate_item *it, bool dropped)
{
	uint64_t at;

	/* Of one that is not there yet nothing has to be taken away. */
	if (!dropped
		    ? copy(e, it) < 0
		    : it->move == e->move && estate_append(e, other(e), it, true, NULL, 0, &at) < 0)
		abandon(e);
}

static void go_on(struct estate *e, uint64_t most)
{
	const uint64_t begun = e->area[other(e)].tail;
	struct estate_item *it;

	while ((it = e->cursor) && e->area[other(e)].tail - begun < most) {
		if (it->move != e->move && copy(e, it) < 0) {
			abandon(e);
			return;
		}
		e->cursor = TAILQ_NEXT(it, link);
	}
}

/* All is in both, and all is committed: from here on it is in the other one. */
static void change_over(struct estate *e)
{
	const unsigned to = other(e);

	e->end = e->area[to].tail;
	__atomic_store_n(&e->head->committed, e->end | (to ? ESTATE_AREA_BIT : 0),
			 __ATOMIC_RELEASE);
	e->area[e->active].tail = 0;
	e->active = to;
	e->moving = false;
	e->tidy_at = 0;
	e->rested = 0;
}

/* Where much is written and soon replaced, as of what is read below files/, pages would be given
 * back all the time, only to be asked for again. So more stay where all was moved a few commits ago. */
static uint64_t least(const struct estate *e)
{
	return e->rested < RESTED ? LEAST_BUSY : LEAST;
}

static bool is_worth_it(const struct estate *e)
{
	return e->end > least(e) && e->end / 2 > e->live && e->end >= e->tidy_at;
}

void estate_tidy(struct estate *e)
{
	const uint64_t written = e->end - MIN(e->last_end, e->end);

	if (!e->moving && is_worth_it(e))
		begin(e);
	if (e->moving)
		go_on(e, STEP + 2 * written);
	if (e->moving && !e->cursor)
		change_over(e);
	e->rested += e->rested < RESTED;
	if (!e->moving)
		estate_give_back(e, other(e), least(e), PUNCH);
	e->last_end = e->end;
}

bool estate_is_untidy(const struct estate *e)
{
	return !e->failed && (e->moving || e->area[other(e)].taken > least(e));
}
