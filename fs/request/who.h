/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks: of a request, or remembered of one. */
#ifndef XSBX_FS_REQUEST_WHO_H
#define XSBX_FS_REQUEST_WHO_H

#include <stdbool.h>

#include "reply.h"

#define WHO_PROGRAM_SIZE 16u /* bytes of a program's name, as the kernel has them */
#define WHO_CGROUP_SIZE	 256u

struct who {
	bool known; /* else it is the daemon that acts */
	struct req_ctx ctx;
	char program[WHO_PROGRAM_SIZE]; /* "": not looked up yet */
	char cgroup[WHO_CGROUP_SIZE]; /* likewise, then: version 2; "": none. Cut if it is longer */
};

#endif
