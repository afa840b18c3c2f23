/* SPDX-License-Identifier: Apache-2.0 */
/* What this process is about to do. See blackbox.h. */
#include "blackbox.h"

#include <stdatomic.h>
#include <stddef.h>

#define CAREFUL_ROUNDS 64u /* of the loop; what was left is done in the first few */

static struct blackbox *box;
static unsigned careful; /* so many rounds more */
static bool finished;	 /* what stands there was done, and is not written down yet */

void blackbox_use(struct blackbox *b)
{
	box = b;
	careful = 0;
	finished = false;
}

/* Whoever dies between the two stores has done neither. */
static void note(struct blackbox *b, uint64_t kind, uint64_t id)
{
	b->kind = BLACKBOX_NOTHING;
	atomic_signal_fence(memory_order_seq_cst);
	b->id = id;
	atomic_signal_fence(memory_order_seq_cst);
	b->kind = kind;
	atomic_signal_fence(memory_order_seq_cst);
}

bool blackbox_revive(struct blackbox *b, bool by_itself)
{
	const uint64_t at[2] = {by_itself ? b->kind : BLACKBOX_NOTHING, b->id};
	const bool again =
		at[0] != BLACKBOX_NOTHING && at[0] == b->before[0] && at[1] == b->before[1];

	if (again) {
		b->poison[0] = at[0];
		b->poison[1] = at[1];
	}
	b->before[0] = at[0];
	b->before[1] = at[1];
	note(b, BLACKBOX_NOTHING, 0);
	careful = by_itself ? CAREFUL_ROUNDS : 0;
	finished = false;
	return again;
}

void blackbox_at(enum blackbox_kind kind, uint64_t id)
{
	if (!box || (box->kind != BLACKBOX_NOTHING && !finished))
		return;
	finished = false;
	note(box, kind, id);
}

void blackbox_done(void)
{
	if (careful)
		finished = true;
	else if (box)
		note(box, BLACKBOX_NOTHING, 0);
}

bool blackbox_is_careful(void)
{
	return careful;
}

void blackbox_written(void)
{
	if (!finished)
		return;
	finished = false;
	if (box)
		note(box, BLACKBOX_NOTHING, 0);
}

void blackbox_round(void)
{
	if (careful)
		careful--;
}

bool blackbox_is_poison(enum blackbox_kind kind, uint64_t id)
{
	return box && kind != BLACKBOX_NOTHING && box->poison[0] == kind && box->poison[1] == id;
}
