/* SPDX-License-Identifier: Apache-2.0 */
/* Packets with descriptors that a socket had no room for. */
#ifndef XSBX_VM_BASE_UNSENT_H
#define XSBX_VM_BASE_UNSENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#define UNSENT_FDS 16u /* of one packet */

/* Owns its descriptors. */
struct unsent_packet {
	STAILQ_ENTRY(unsent_packet) link;
	int fds[UNSENT_FDS];
	size_t nfds, len;
	char bytes[];
};

/* In the order in which they go. Embedded by its owner, who sends what comes later behind them. */
struct unsent {
	STAILQ_HEAD(unsent_packets, unsent_packet) list;
	size_t n;
};

void unsent_init(struct unsent *u);

/* Drops all of them. */
void unsent_clear(struct unsent *u);

/* Keeps a packet, with copies of its descriptors. Return: 0, -ENOMEM, or -errno: there is none for
 * a copy. */
int unsent_keep(struct unsent *u, const void *bytes, size_t len, const int *fds, size_t nfds);

/* Sends what there is room for. Return: 0: all; -EAGAIN: there is no room for more; or -errno of the
 * first, which stays. */
int unsent_send(struct unsent *u, int sock);

/* The first, or NULL; and drops it. */
const struct unsent_packet *unsent_first(const struct unsent *u);
void unsent_drop(struct unsent *u);

/* In a child: closes its copies of what they own. */
void unsent_leave(const struct unsent *u);

#endif
