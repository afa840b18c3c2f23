/* SPDX-License-Identifier: Apache-2.0 */
/* The system's clocks, in milliseconds. */
#ifndef XSBX_VM_BASE_MS_H
#define XSBX_VM_BASE_MS_H

#include <stdint.h>
#include <time.h>

/* Of CLOCK_MONOTONIC, or since 1970 of CLOCK_REALTIME; rounded down. */
static inline int64_t ms_now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

#endif
