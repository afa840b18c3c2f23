/* SPDX-License-Identifier: Apache-2.0 */
/* What time it is. */
#ifndef XSBX_FS_REQUEST_CLOCK_H
#define XSBX_FS_REQUEST_CLOCK_H

#include <time.h>

/* Wall-clock time now, for what users see; what is waited for goes by uv_now(). */
struct timespec clock_now(void);

#endif
