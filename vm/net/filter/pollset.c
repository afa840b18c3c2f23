/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors to poll in one iteration of the loop. */
#include "pollset.h"

#include <errno.h>
#include <stdlib.h>

int pollset_add(struct pollset *set, int fd, short events)
{
	if (set->n == set->cap) {
		const size_t cap = set->cap ? set->cap * 2 : 32;
		struct pollfd *fds = reallocarray(set->fds, cap, sizeof(*fds));

		if (!fds)
			return -ENOMEM;
		set->fds = fds;
		set->cap = cap;
	}
	/* An end of file would be reported for ever on a descriptor that nobody reads from now. */
	set->fds[set->n] = (struct pollfd){events ? fd : -1, events, 0};
	return (int)set->n++;
}

short pollset_events(const struct pollset *set, int place)
{
	return place < 0 || (size_t)place >= set->n ? 0 : set->fds[place].revents;
}
