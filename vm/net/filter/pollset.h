/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors to poll in one iteration of the loop. */
#ifndef XSBX_VM_NET_FILTER_POLLSET_H
#define XSBX_VM_NET_FILTER_POLLSET_H

#include <poll.h>
#include <stddef.h>

/* Refilled in every iteration, by pollset_add(). */
struct pollset {
	struct pollfd *fds;
	size_t n, cap;
};

/* Adds a descriptor; without events it is not watched at all. Return: its index, or -ENOMEM. */
int pollset_add(struct pollset *set, int fd, short events);

/* The events of an index; 0 if it is negative. */
short pollset_events(const struct pollset *set, int place);

#endif
