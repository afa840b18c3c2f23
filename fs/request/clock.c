/* SPDX-License-Identifier: Apache-2.0 */
/* The wall clock. */
#include "clock.h"

struct timespec clock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t;
}

int64_t clock_ms(const struct timespec *t)
{
	return (int64_t)t->tv_sec * 1000 + t->tv_nsec / 1000000;
}
