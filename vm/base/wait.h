/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for something that somebody is making: embedded in who waits, who is told when it is there. */
#ifndef XSBX_VM_BASE_WAIT_H
#define XSBX_VM_BASE_WAIT_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "util.h"

struct problem;
struct wait;

TAILQ_HEAD(wait_list, wait);

/*
 * Embedded, zeroed, with `done` and `owner` set. `list` is NULL unless it waits.
 */
struct wait {
	TAILQ_ENTRY(wait) link;
	struct wait_list *list;
	void *on;    /* what it waits for, for whoever keeps the list */
	uid_t owner; /* for whom */
	/* It waits no more: what it waited for is there, or, because of @problem, won't be. */
	void (*done)(struct wait *w, const struct problem *problem);
	/* Meanwhile: a line of what is said by whoever makes it. May be NULL. */
	void (*progress)(struct wait *w, const char *line);
};

/* Waits for @on, at the end of @list. */
void wait_for(struct wait *w, struct wait_list *list, void *on);

/* Does not wait any more, if it did; `done` is not called. */
void wait_cancel(struct wait *w);

static inline bool wait_is_on(const struct wait *w)
{
	return w->list;
}

/* Those who wait for @on are told that they need not any more, in the order in which they came. Whoever of them
 * waits for it again does so from then on. */
void wait_done(struct wait_list *list, const void *on, const struct problem *problem);

void wait_progress(struct wait_list *list, const void *on, const char *line);

/* Does anybody wait for @on? */
bool wait_any(const struct wait_list *list, const void *on);

#endif
