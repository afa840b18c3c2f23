/* SPDX-License-Identifier: Apache-2.0 */
/* The wall clock. */
#ifndef XSBX_FS_REQUEST_CLOCK_H
#define XSBX_FS_REQUEST_CLOCK_H

#include <stdint.h>
#include <time.h>

/* The current wall-clock time, for times shown to users; timeouts use uv_now(). */
struct timespec clock_now(void);

/* The same in milliseconds since 1970. */
int64_t clock_ms(const struct timespec *t);

#endif
