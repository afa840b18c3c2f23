/* SPDX-License-Identifier: Apache-2.0 */
/* Agents that are late because what they run in gets no processor. */
#ifndef XSBX_VM_GUEST_STARVED_H
#define XSBX_VM_GUEST_STARVED_H

#include <stdbool.h>
#include <stdint.h>

struct guest;

#define STARVED_STEP_MS 5000u	/* at most so much counts from one look to the next */
#define STARVED_MOST_MS 300000u /* nobody is waited for longer, on the clock */

/*
 * Theory of operation
 * -------------------
 * On a busy host a machine may have a tenth of a processor: what its agent does in a second otherwise takes ten. So an agent that
 * is late is given time by a clock of its own, which stands still while the threads that it needs (QEMU's, or its own) wait for a
 * processor; the kernel counts that for each (schedstat). Where nobody tells, it is the clock on the wall.
 *
 * From one look to the next never more than a step passes: a daemon that was stopped itself, or had no processor, has answers to
 * read still. Who runs in the sandbox can make it wait by computing; so it is not waited for for ever.
 *
 * Nothing of this is looked at while an agent is in time.
 */

/* Embedded, zeroed. */
struct starved {
	bool on;
	uint64_t at_ms, waited_ms; /* at the last look */
	uint64_t own_ms, all_ms;   /* since it began, by both clocks */
};

/* From now on. */
void starved_begin(struct starved *st, const struct guest *g);

/* Brings both clocks up to date. */
void starved_look(struct starved *st, const struct guest *g);

/* Has the agent had that much of its own time, or as much as anybody gets? Looks first. */
bool starved_over(struct starved *st, const struct guest *g, uint64_t own_ms);

/* Of one heartbeat without a word of it: was it without a processor for most of that? Begins with the first. */
bool starved_beat(struct starved *st, const struct guest *g);

#endif
