/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed memory as a guest's swap, and a guard against thrashing. */
#ifndef XSBX_AGENT_GUEST_SWAP_H
#define XSBX_AGENT_GUEST_SWAP_H

#include "agent/core/guest_env.h"
#include "agent/core/loop.h"

/**
 * swap_on() - Turn swap on, if the kernel can compress memory
 * @ret_swap: Input for the guard
 *
 * Failures are logged; the guest works without swap. Call it before user code can run.
 */
void swap_on(struct swap *ret_swap);

struct swap_guard {
	struct loop *loop;
	struct swap swap;
	struct loop_source pressure;
	void (*spent)(struct swap_guard *g); /* memory is exhausted; may be called repeatedly */
};

/**
 * swap_guard_init() - Start watching the guest's memory
 * @g: Guard with loop, swap and spent set
 */
void swap_guard_init(struct swap_guard *g);

/** swap_guard_fini() - Stop watching. */
void swap_guard_fini(struct swap_guard *g);

#endif
