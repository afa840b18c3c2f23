/* SPDX-License-Identifier: Apache-2.0 */
/* Interpreters in reserve: ready and never used, for the moment when the active one ends. */
#ifndef XSBX_AGENT_INTERP_SPARE_H
#define XSBX_AGENT_INTERP_SPARE_H

#include <stdbool.h>
#include <sys/resource.h>

#include "driver.h"
#include "interp.h"

struct agent;

/** spare_init() - Prepare; there is no spare yet. */
void spare_init(struct agent *a);

/**
 * spare_take() - Get an active interpreter out of the spare
 * @a: Agent without an active interpreter
 *
 * Return: false if a new one has to be started. Otherwise it is there, or on its way, or will be
 * after the spare has finished what it is doing.
 */
bool spare_take(struct agent *a);

/**
 * spare_warm() - Serve WARM
 * @a: Agent with an idle active interpreter
 *
 * Return: true when the active interpreter and the spare, if there can be one, are warm.
 */
bool spare_warm(struct agent *a);

/** spare_advance() - Take the next step towards a spare. */
void spare_advance(struct agent *a);

/** spare_drop() - What is in reserve does not fit any more: end it. */
void spare_drop(struct agent *a);

/** spare_fail() - Spare or zygote is of no use: end it. */
void spare_fail(struct agent *a, struct interp *i, const char *why);

/** spare_on_ready() - Spare or zygote has started. */
void spare_on_ready(struct agent *a);

/** spare_on_done() - Spare or zygote has done what it was asked. */
void spare_on_done(struct agent *a, struct interp *i, enum driver_type what, int status);

/** spare_on_death() - Spare or zygote is gone; @was as for interp.on_death. */
void spare_on_death(struct agent *a, struct interp *i, enum interp_state was, int wait_status);

#endif
