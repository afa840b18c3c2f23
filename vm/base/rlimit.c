/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of this process, which whoever started it has set. */
#include "rlimit.h"

#include <sys/resource.h>

#define MOST (1u << 20)

void rlimit_raise_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

unsigned rlimit_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur > MOST)
		return MOST;
	return (unsigned)files.rlim_cur;
}
