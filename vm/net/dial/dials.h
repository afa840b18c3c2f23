/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that are being made for the daemon: looked up, judged, and tried. */
#ifndef XSBX_VM_NET_DIAL_DIALS_H
#define XSBX_VM_NET_DIAL_DIALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "message.h"
#include "server.h"

/*
 * - `threads` has for whom each lookup is that is at work; owner 0: the thread has nothing to do.
 * - `kept` counts the dials that are in memory: those of `list`, and those whose handles are not closed yet.
 * - Callbacks: `done` has the result of a dial, an enum net_reason, and @fd, which it owns, or -1; `gone` is called when none is in
 *   memory any more.
 */
struct dials {
	uv_loop_t *loop;
	const struct dial_config *cfg;
	TAILQ_HEAD(dial_list, dial) list;
	unsigned n, kept;
	struct {
		uint32_t owner, user;
	} threads[DIAL_THREADS];
	void (*done)(struct dials *dials, uint32_t id, unsigned reason, int fd);
	void (*gone)(struct dials *dials);
};

/* `loop`, `cfg` and the callbacks are the caller's to set. */
void dials_init(struct dials *dials);

/* The @nspared addresses of @spared may be connected to although they are not public. Return: 0, and `done` is called; or -ENOMEM. */
int dials_begin(struct dials *dials, const struct dial_connect *msg, const uint32_t *spared,
		size_t nspared);

/* Cancels a dial, which need not exist: `done` is not called for it. */
void dials_cancel(struct dials *dials, uint32_t id);
void dials_cancel_all(struct dials *dials);

#endif
