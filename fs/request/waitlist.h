/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting requests: parked reads, and polls. */
#ifndef XSBX_FS_REQUEST_WAITLIST_H
#define XSBX_FS_REQUEST_WAITLIST_H

#include <stdint.h>

#include "handle.h"
#include "vm/base/turn.h"

/*
 * Theory of operation
 * -------------------
 * A read that must wait is parked: its request is kept, with what is needed to retry it, on the
 * list of the object it waits for (a session, or the events). Whenever that changes,
 * wait_wake() first takes all of them off the list and then retries each, so a retry may be parked
 * again, or answer, or free objects, without disturbing the iteration. An interrupted request is
 * removed and answered with EINTR; this also makes its reader killable. wait_flush()
 * answers all with one error when the object ends.
 *
 * Where answers wait for the end of the turn (vm/base/turn.h), a thousand readers who are woken by
 * one long output must not have all of it lie in memory a thousand times. So when much is queued,
 * the others stay parked, and are woken when that was said.
 *
 * poll(2) works the same way, but once: the kernel's poll handle is kept until the next change,
 * used once, and dropped; the kernel then polls again.
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
	uint64_t serial; /* unique for each time a request is parked */
};

struct waitlist {
	TAILQ_HEAD(waiter_list, waiter) waiters;
	struct polled_list polled;
	unsigned nwaiters;
	struct turn *turn;	   /* while `again` is in it; only if there are waiters */
	struct turn_speaker again; /* wakes those who were left */
};

void waitlist_init(struct waitlist *wl);

/* Parks @req until the next wake of the handle's waitlist. */
void wait_park(struct handle *h, struct req *req, size_t size, uint64_t offset);
/* The same for who can wait: what fills the page cache could not be interrupted (-EIO), and who
 * must not, is told (-EAGAIN). */
void wait_or_refuse(struct handle *h, struct req *req, size_t size, uint64_t offset, bool nonblock);
/* As wait_park(), until it is explicitly removed from @wl. */
void wait_park_on(struct waitlist *wl, struct handle *h, struct req *req, size_t size,
		  uint64_t offset);
/* Removes a waiter from its list, and frees it. Return: its request, to be answered by the
 * caller. */
struct req *wait_unpark(struct waiter *w);
/* Something has changed: retries every parked read and wakes the pollers. */
void wait_wake(struct waitlist *wl);
/* Answers every parked read with @err (-errno) and wakes the pollers. */
void wait_flush(struct waitlist *wl, int err);
/* Keeps @pw (and takes ownership of it) for the next wake, in place of an older one. */
void wait_poll(struct handle *h, struct pollwait *pw);
/* Drops what wait_poll() has kept, if anything. */
void wait_unpoll(struct handle *h);

/* Deadlines may have passed: retries the reads of handles whose deadline has. Return: the next
 * deadline, as uv_now(), or UINT64_MAX. */
uint64_t wait_tick(struct waitlist *wl, uint64_t now);

#endif
