/* SPDX-License-Identifier: Apache-2.0 */
/* The active interpreter, and those in reserve: ready and never used, for the moment when it ends. */
#ifndef XSBX_AGENT_INTERP_SPARE_H
#define XSBX_AGENT_INTERP_SPARE_H

#include <stdbool.h>

#include "agent/core/loop.h"
#include "driver.h"
#include "interp.h"

/*
 * Embedded by its owner, who sets the first three and prepares the slots.
 *
 * - The three pointers lead to the three slots; which is which changes.
 */
struct spares {
	struct loop *loop;
	bool (*quiet)(const struct spares *all); /* does nobody wait for anything? */
	void (*changed)(struct spares *all);	 /* another one is active */

	struct interp slots[3];
	struct interp *active; /* it runs code */
	struct interp *spare, *zygote;
	struct loop_timer timer;
	unsigned failures; /* in a row */
};

/** spare_init() - Prepare; there is no spare yet. */
void spare_init(struct spares *all);

enum spare_taken {
	SPARE_NONE, /* a new one has to be started */
	SPARE_SOON, /* one will be there when the zygote has finished what it is doing */
	SPARE_TAKEN, /* there is an active one, or it is on its way; its randomness is that of others */
};

/**
 * spare_take() - Get an active interpreter out of the spare
 * @all: Without an active interpreter
 * @warming: WARM has to be answered: a zygote that is not warm yet is to become so
 */
enum spare_taken spare_take(struct spares *all, bool warming);

/**
 * spare_warm() - Serve WARM
 * @all: With an idle active interpreter
 *
 * Return: true when the active interpreter and the spare, if there can be one, are warm.
 */
bool spare_warm(struct spares *all);

/** spare_advance() - Take the next step towards a spare. */
void spare_advance(struct spares *all);

/** spare_drop() - What is in reserve does not fit any more: end it. */
void spare_drop(struct spares *all);

/** spare_fail() - The spare or zygote is unusable: end it. */
void spare_fail(struct spares *all, struct interp *i, const char *why);

/** spare_on_ready() - Spare or zygote has started. */
void spare_on_ready(struct spares *all);

/** spare_on_done() - Spare or zygote has done what it was asked. */
void spare_on_done(struct spares *all, struct interp *i, enum driver_type what, int status);

/** spare_on_death() - Spare or zygote is gone; @was as for interp.on_death. */
void spare_on_death(struct spares *all, struct interp *i, enum interp_state was, int wait_status);

#endif
