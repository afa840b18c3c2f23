/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers for all files of the agent. */
#ifndef XSBX_AGENT_CORE_UTIL_H
#define XSBX_AGENT_CORE_UTIL_H

#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "vm/base/util.h"

/* Microseconds of the monotonic clock. */
static inline uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* Closes *@fd if it is open, and marks it closed. */
static inline void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

#endif
