/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for something that is being made. */
#include "wait.h"

#include <assert.h>

void wait_for(struct wait *w, struct wait_list *list, void *on)
{
	assert(!w->list);
	w->list = list;
	w->on = on;
	TAILQ_INSERT_TAIL(list, w, link);
}

void wait_cancel(struct wait *w)
{
	if (w->list)
		TAILQ_REMOVE(w->list, w, link);
	w->list = NULL;
}

void wait_done(struct wait_list *list, const void *on, const struct problem *problem)
{
	struct wait_list those = TAILQ_HEAD_INITIALIZER(those);
	struct wait *w, *following;

	for (w = TAILQ_FIRST(list); w; w = following) {
		following = TAILQ_NEXT(w, link);
		if (w->on != on)
			continue;
		wait_cancel(w);
		wait_for(w, &those, w->on);
	}
	/* One that is told may cancel another. */
	while ((w = TAILQ_FIRST(&those))) {
		wait_cancel(w);
		w->done(w, problem);
	}
}

void wait_progress(struct wait_list *list, const void *on, const char *line)
{
	struct wait *w;

	TAILQ_FOREACH(w, list, link)
		if (w->on == on && w->progress)
			w->progress(w, line);
}

bool wait_any(const struct wait_list *list, const void *on)
{
	const struct wait *w;

	TAILQ_FOREACH(w, list, link)
		if (w->on == on)
			return true;
	return false;
}
