/* SPDX-License-Identifier: Apache-2.0 */
/* FREEZE: all user code is stopped for the host, and goes on. */
#ifndef XSBX_AGENT_FREEZE_H
#define XSBX_AGENT_FREEZE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Theory of operation
 * -------------------
 * How it is stopped is in run/freezer.h. The interpreter of a machine that is to be copied is told before
 * (DRIVER_PREPARE), and given some time until it waits again: what it does then, no copy has to do. That it has done it is
 * nothing to rely upon. It may be kept from it by user code, and each copy looks again what of it is so.
 */

struct agent;

/** freeze_init() - Initialize the part of the agent that is about freezing. */
void freeze_init(struct agent *a);

/** freeze_ask() - All is to be stopped: FROZEN will be the answer, which says, if @who, who could not be. */
void freeze_ask(struct agent *a, uint32_t id, bool who);

/** freeze_prepare() - The machine is to be copied soon: FROZEN will be the answer. */
void freeze_prepare(struct agent *a, uint32_t id);

/** freeze_end() - Something is asked for that ends the standing still, if there is any; an answer that is due says so. */
void freeze_end(struct agent *a);

/** freeze_end_checked() - It is to end: FROZEN will be the answer, and ECANCELED if anything has run in between. */
void freeze_end_checked(struct agent *a, uint32_t id);

/** freeze_forget() - The same, and nobody expects an answer. */
void freeze_forget(struct agent *a);

/** freeze_advance() - Go on with what was asked, as far as that can be now. */
void freeze_advance(struct agent *a);

#endif
