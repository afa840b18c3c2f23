/* SPDX-License-Identifier: Apache-2.0 */
/* A limit of how often something is done: some at once, and one each so many milliseconds behind them. */
#ifndef XSBX_VM_BASE_RATE_H
#define XSBX_VM_BASE_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "vm/base/util.h"

/* All zeroes: nothing was done yet. */
struct rate {
	unsigned left;	    /* that may still be done */
	uint64_t filled_ms; /* when `left` was last increased; 0: never */
};

/* May it be done now, of @burst at once, and one each @each_ms behind them? If so, it counts. */
static inline bool rate_take(struct rate *r, unsigned burst, unsigned each_ms, uint64_t now_ms)
{
	const uint64_t due = (now_ms - r->filled_ms) / each_ms;

	if (!r->filled_ms || due >= burst) {
		r->left = burst;
		r->filled_ms = MAX(now_ms, (uint64_t)1);
	} else {
		r->left = MIN(r->left + (unsigned)due, burst);
		r->filled_ms += due * each_ms;
	}
	if (!r->left)
		return false;
	r->left--;
	return true;
}

#endif
