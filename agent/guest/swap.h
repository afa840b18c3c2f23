/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed memory as a guest's swap, and a guard against a guest that only swaps. */
#ifndef XSBX_AGENT_GUEST_SWAP_H
#define XSBX_AGENT_GUEST_SWAP_H

#include <stdint.h>

#include "agent/core/loop.h"

/* What PID 1 opens while everything is still in reach; -1 and 0 if there is no such thing. */
struct swap {
	int stat_fd;	 /* what the compressed memory takes */
	uint64_t size;	 /* what may be swapped out, in bytes */
	uint64_t limit;	 /* the most it may take, in bytes */
	int pressure_fd; /* becomes ready when tasks wait for memory much of the time */
};

#define SWAP_NONE ((struct swap){.stat_fd = -1, .pressure_fd = -1})

/**
 * swap_on() - Turn swap on, if the kernel can compress memory
 * @ret_swap: What the guard needs
 *
 * What fails is logged; the guest works without it. To be called before user code can run.
 */
void swap_on(struct swap *ret_swap);

struct swap_guard {
	struct loop *loop;
	struct swap swap;
	struct loop_source pressure;
	void (*spent)(struct swap_guard *g); /* there is no more memory; may come again and again */
};

/**
 * swap_guard_init() - Watch over the guest's memory
 * @g: Guard with loop, swap and spent set
 */
void swap_guard_init(struct swap_guard *g);

/** swap_guard_fini() - Stop watching. */
void swap_guard_fini(struct swap_guard *g);

#endif
