/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to the outside that are being made. */
#ifndef XSBX_VM_NET_DIAL_DIAL_H
#define XSBX_VM_NET_DIAL_DIAL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "message.h"
#include "server.h"

struct dial;

#define DIAL_THREADS 16 /* for lookups, each of which may take seconds; main.c makes as many */

/*
 * Embedded by its owner, who sets the first three.
 *
 * - `answer` is called once for each dial that was begun, unless it is cancelled: NET_OK with a socket, which
 *   becomes the owner's, or another enum net_reason and -1.
 * - `threads` has for whom each lookup is that is at work; owner 0: the thread has nothing to do.
 * - `kept` counts the dials that are in memory. `gone` is called when it has become 0; the owner may go then.
 */
struct dials {
	const struct dial_config *cfg;
	void (*answer)(struct dials *dials, uint32_t id, unsigned reason, int fd);
	void (*gone)(struct dials *dials);

	uv_loop_t *loop;
	TAILQ_HEAD(dial_list, dial) list;
	unsigned n, kept;
	struct {
		uint32_t owner, user;
	} threads[DIAL_THREADS];
};

void dials_init(struct dials *dials, uv_loop_t *loop);

/**
 * dials_begin() - Begin to make a connection
 * @dials: Where to
 * @msg: What is asked for
 * @spared: Addresses that may be connected to although they are not public, in network order
 * @nspared: How many
 *
 * Return: 0 or -ENOMEM.
 */
int dials_begin(struct dials *dials, const struct dial_connect *msg, const uint32_t *spared,
		size_t nspared);

/* Nobody wants it any more; there need not be such a one. */
void dials_cancel(struct dials *dials, uint32_t id);

void dials_cancel_all(struct dials *dials);

#endif
