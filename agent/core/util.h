/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers for all files of the agent. */
#ifndef XSBX_AGENT_CORE_UTIL_H
#define XSBX_AGENT_CORE_UTIL_H

#include <stdint.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "vm/base/util.h"

/* In microseconds. */
static inline uint64_t timeval_us(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000 + (uint64_t)tv->tv_usec;
}

/* Microseconds of a clock; 0 if it cannot be read. */
static inline uint64_t clock_us(clockid_t clock)
{
	struct timespec ts = {0};

	(void)clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* Microseconds of the monotonic clock. */
static inline uint64_t now_us(void)
{
	return clock_us(CLOCK_MONOTONIC);
}

/* Closes *@fd if it is open, and marks it closed. */
static inline void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

#endif
