/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors of one turn of the loop. */
#ifndef XSBX_VM_NET_FILTER_POLLSET_H
#define XSBX_VM_NET_FILTER_POLLSET_H

#include <poll.h>
#include <stddef.h>

/* Filled anew in every turn; the places of `fds` are given out by pollset_add(). */
struct pollset {
	struct pollfd *fds;
	size_t n, cap;
};

/* Adds a descriptor; with no events it is not watched at all. Return: its place, or -ENOMEM. */
int pollset_add(struct pollset *set, int fd, short events);

/* What happened at a place; 0 for a negative one. */
short pollset_events(const struct pollset *set, int place);

#endif
