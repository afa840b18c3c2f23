/* SPDX-License-Identifier: Apache-2.0 */
/* The wall clock. */
#include "clock.h"

struct timespec clock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t;
}
