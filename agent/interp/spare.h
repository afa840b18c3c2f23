/* SPDX-License-Identifier: Apache-2.0 */
/* The active interpreter, and spare ones: ready and unused, to replace it when it ends. */
#ifndef XSBX_AGENT_INTERP_SPARE_H
#define XSBX_AGENT_INTERP_SPARE_H

#include <stdbool.h>

#include "agent/core/loop.h"
#include "driver.h"
#include "interp.h"

/*
 * Embedded by its owner, who sets the first four and prepares the slots.
 *
 * - The three pointers refer to the three slots, in changing order.
 */
struct spares {
	struct loop *loop;
	bool (*quiet)(const struct spares *all); /* is nothing pending? */
	void (*changed)(struct spares *all);	 /* `active` has changed */
	bool lazy;				 /* none before an interpreter had to be replaced */
	bool none;				 /* none: each is to be as if it were the first */

	struct interp slots[3];
	struct interp *active; /* executes runs */
	struct interp *spare, *zygote;
	struct loop_timer timer;
	unsigned failures; /* in a row */
	bool begun;	   /* there was an active interpreter, */
	bool needed;	   /* which had to be replaced */
};

/** spare_init() - Initialize; there is no spare yet. */
void spare_init(struct spares *all);

enum spare_taken {
	SPARE_NONE,  /* a new one has to be started */
	SPARE_SOON,  /* there will be one when the zygote has finished its current request */
	SPARE_TAKEN, /* one is active, or starting; its random seed is not unique */
};

/**
 * spare_take() - Make the spare the active interpreter
 * @all: Without an active interpreter
 * @warming: WARM is pending: a zygote that is not warm yet is warmed
 */
enum spare_taken spare_take(struct spares *all, bool warming);

/**
 * spare_warm() - Handle WARM
 * @all: With an idle active interpreter
 *
 * Return: true when the active interpreter, and the spare if one is possible, are warm.
 */
bool spare_warm(struct spares *all);

/** spare_advance() - Take the next step towards a spare. */
void spare_advance(struct spares *all);

/** spare_drop() - End spare and zygote, which are not suitable any more. */
void spare_drop(struct spares *all);

/** spare_fail() - End a spare or zygote that is unusable. */
void spare_fail(struct spares *all, struct interp *i, const char *why);

/** spare_on_ready() - A spare or zygote has started. */
void spare_on_ready(struct spares *all);

/** spare_on_done() - A spare or zygote has completed a request. */
void spare_on_done(struct spares *all, struct interp *i, enum driver_type what, int status);

/** spare_on_death() - A spare or zygote has ended; @was as for interp.on_death. */
void spare_on_death(struct spares *all, struct interp *i, enum interp_state was, int wait_status);

#endif
