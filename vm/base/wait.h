/* SPDX-License-Identifier: Apache-2.0 */
/* A waiter for something being made: embedded in the object that waits, which is called back when
 * it is done. */
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
 * Embedded, zeroed, with `done` and `owner` set. `list` is NULL unless it is waiting.
 */
struct wait {
	TAILQ_ENTRY(wait) link;
	struct wait_list *list;
	void *on;    /* what it waits for; known to the owner of the list */
	uid_t owner; /* the user it waits for */
	/* The wait is over: successfully, or because of @problem. */
	void (*done)(struct wait *w, const struct problem *problem);
	/* A line of progress output in the meantime. May be NULL. */
	void (*progress)(struct wait *w, const char *line);
};

/* Starts waiting for @on, at the end of @list. */
void wait_for(struct wait *w, struct wait_list *list, void *on);

/* Stops waiting, if it is; `done` is not called. */
void wait_cancel(struct wait *w);

/* Ends all waits for @on, in the order in which they were started. A waiter may start waiting for
 * it again from its `done`. */
void wait_done(struct wait_list *list, const void *on, const struct problem *problem);

void wait_progress(struct wait_list *list, const void *on, const char *line);

/* Is anything waiting for @on? */
bool wait_any(const struct wait_list *list, const void *on);

#endif
