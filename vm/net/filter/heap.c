/* SPDX-License-Identifier: Apache-2.0 */
/* What memory stays with this process. */
#include "heap.h"

#include <malloc.h>
#include <sys/prctl.h>

#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * libslirp gives each connection two buffers of 128 KiB, and makes them a bit larger at once. In the heap that copies both, and
 * then all of them takes memory, for ten seconds more than the connection lasts. In mappings of their own they are moved instead,
 * only what was used of them takes memory, and it goes back with them. Buffers of ours are smaller (PROXY_KEEPS), so that each
 * piece that passes does not take a new mapping.
 *
 * Where the host gives huge pages to all who don't ask, one byte of them takes 2 MiB: here none are wanted.
 *
 * What is in the heap lies between what stays, and goes back only if that is asked for, which is not worth it for a few
 * connections.
 */

#define MAPPED (128 << 10)
#define CROWD  16

void heap_init(void)
{
	(void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* older kernels may refuse */
	mallopt(M_MMAP_THRESHOLD, MAPPED);
}

void heap_tidy(unsigned connections)
{
	static unsigned most;

	most = MAX(most, connections);
	if (connections > 0 || most < CROWD)
		return;
	malloc_trim(0);
	most = 0;
}
