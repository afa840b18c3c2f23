/* SPDX-License-Identifier: Apache-2.0 */
/* What time it is. */
#include "clock.h"

struct timespec clock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t;
}
