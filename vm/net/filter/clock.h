/* SPDX-License-Identifier: Apache-2.0 */
/* Milliseconds of the system's clocks. */
#ifndef XSBX_VM_NET_FILTER_CLOCK_H
#define XSBX_VM_NET_FILTER_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t net_clock_ms(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

#endif
