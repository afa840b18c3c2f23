/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait: parked reads, and who polls. */
#ifndef XSBX_FS_REQUEST_WAITLIST_H
#define XSBX_FS_REQUEST_WAITLIST_H

#include <stdint.h>

#include "handle.h"

/*
 * Theory of operation
 * -------------------
 * A read that must wait is parked: its request is kept, with what is needed to try it again, on the
 * list of whatever it waits for (a session, or the events). Whenever something changes there,
 * wait_wake() takes all of them off the list first and then tries each again, so a retry may park
 * itself anew, or answer, or free things, without upsetting the walk. An interrupted request is
 * taken off and answered with EINTR; that is also what makes its reader killable. wait_flush()
 * answers all with one error when the thing waited for ends.
 *
 * poll(2) is the same idea with one shot: the kernel's poll handle is kept until the next change,
 * used once, and thrown away; the kernel then asks again.
 */

struct req;
struct pollwait;

struct waiter {
	TAILQ_ENTRY(waiter) link;
	struct waitlist *list;
	struct req *req;
	struct handle *h;
	size_t size;
	uint64_t offset;
	uint64_t serial; /* another for each time that anything is parked */
};

struct waitlist {
	TAILQ_HEAD(waiter_list, waiter) waiters;
	struct polled_list polled;
	unsigned nwaiters;
};

void waitlist_init(struct waitlist *wl);

/* Keeps @req until the next wake of the handle's waitlist. */
void wait_park(struct handle *h, struct req *req, size_t size, uint64_t offset);
/* Likewise until somebody takes it off @wl. */
void wait_park_on(struct waitlist *wl, struct handle *h, struct req *req, size_t size,
		  uint64_t offset);
/* Takes a waiter off its list, and frees it. Return: its request, which is the caller's to answer. */
struct req *wait_unpark(struct waiter *w);
/* Something changed: tries every parked read again and wakes the pollers. */
void wait_wake(struct waitlist *wl);
/* Answers every parked read with @err (-errno) and wakes the pollers. */
void wait_flush(struct waitlist *wl, int err);
/* Remembers @pw (ownership passes) for the next wake, in place of an older one. */
void wait_poll(struct handle *h, struct pollwait *pw);
/* Forgets what wait_poll() has remembered, if anything. */
void wait_unpoll(struct handle *h);

/* Something may have waited too long: tries again those whose handles' deadlines have passed. Return: the next deadline,
 * as uv_now(), or UINT64_MAX. */
uint64_t wait_tick(struct waitlist *wl, uint64_t now);

#endif
