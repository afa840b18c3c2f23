/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting requests: parked reads, and polls. See waitlist.h. */
#include "waitlist.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "vm/base/util.h"
#include "reply.h"

#define QUEUED_MOST (1u << 20) /* bytes of answers, before readers are left for later */

static void on_again(struct turn_speaker *again)
{
	struct waitlist *wl = container_of(again, struct waitlist, again);

	wl->turn = NULL;
	wait_wake(wl);
}

void waitlist_init(struct waitlist *wl)
{
	wl->turn = NULL;
	wl->again = (struct turn_speaker){.speak = on_again};
	TAILQ_INIT(&wl->waiters);
	TAILQ_INIT(&wl->polled);
	wl->nwaiters = 0;
}

static void forget_again(struct waitlist *wl)
{
	if (wl->turn)
		turn_hush(wl->turn, &wl->again);
	wl->turn = NULL;
}

/* Off its list, at the word of the request itself. */
static struct req *unpark(struct waiter *w)
{
	struct waitlist *wl = w->list;
	struct req *req = w->req;

	TAILQ_REMOVE(&wl->waiters, w, link);
	if (--wl->nwaiters == 0)
		forget_again(wl);
	free(w);
	return req;
}

struct req *wait_unpark(struct waiter *w)
{
	req_on_interrupt(w->req, NULL, NULL);
	return unpark(w);
}

static void on_interrupt(struct req *req, void *data)
{
	struct waiter *w = data;

	assert(w->req == req);
	reply_err(unpark(w), -EINTR);
}

void wait_park_on(struct waitlist *wl, struct handle *h, struct req *req, size_t size,
		  uint64_t offset)
{
	static uint64_t serial;
	struct waiter *w = h->all->closed ? NULL : malloc(sizeof(*w));

	if (!w) {
		reply_err(req, h->all->closed ? -ENOTCONN : -ENOMEM);
		return;
	}
	serial++;
	*w = (struct waiter){
		.list = wl, .req = req, .h = h, .size = size, .offset = offset, .serial = serial};
	TAILQ_INSERT_TAIL(&wl->waiters, w, link);
	wl->nwaiters++;
	req_on_interrupt(req, on_interrupt, w); /* may call it at once, and end w */
}

void wait_park(struct handle *h, struct req *req, size_t size, uint64_t offset)
{
	wait_park_on(h->waitlist, h, req, size, offset);
}

void wait_or_refuse(struct handle *h, struct req *req, size_t size, uint64_t offset, bool nonblock)
{
	if (h->cached)
		reply_err(req, -EIO);
	else if (nonblock)
		reply_err(req, -EAGAIN);
	else
		wait_park(h, req, size, offset);
}

static void wake_pollers(struct waitlist *wl)
{
	struct handle *h;

	while ((h = TAILQ_FIRST(&wl->polled))) {
		struct pollwait *pw = h->poll;

		TAILQ_REMOVE(&wl->polled, h, poll_link);
		h->poll = NULL;
		pollwait_notify(pw);
		pollwait_free(pw);
	}
}

/* Reads again what is parked on it. @most: bytes of answers that may be queued; others are left for
 * later. */
static void retry(struct waitlist *wl, size_t most)
{
	unsigned n = wl->nwaiters;

	/* Those that park again go to the end of the list; n bounds this round to the others. */
	while (n-- && !TAILQ_EMPTY(&wl->waiters)) {
		struct waiter *w = TAILQ_FIRST(&wl->waiters);
		struct handle *h = w->h;
		struct turn *turn = touched_turn(h->all->touched);
		size_t size = w->size;
		uint64_t offset = w->offset;
		struct req *req;

		if (turn_is_on(turn) && turn->queued >= most) {
			wl->turn = turn;
			turn_speak(turn, TURN_ANSWERS, &wl->again);
			return;
		}
		req = wait_unpark(w);
		handle_touch(h);
		h->ops->read(h, req, size, offset, false);
	}
}

void wait_wake(struct waitlist *wl)
{
	retry(wl, QUEUED_MOST);
	wake_pollers(wl);
}

void wait_flush(struct waitlist *wl, int err)
{
	struct waiter *w;

	/* Who was woken, and left for later, gets what there is. */
	if (wl->turn)
		retry(wl, SIZE_MAX);
	while ((w = TAILQ_FIRST(&wl->waiters)))
		reply_err(wait_unpark(w), err);
	wake_pollers(wl);
}

uint64_t wait_tick(struct waitlist *wl, uint64_t now)
{
	uint64_t next = UINT64_MAX;
	bool expired = false;
	struct waiter *w;

	TAILQ_FOREACH(w, &wl->waiters, link) {
		if (!w->h->deadline)
			continue;
		if (now < w->h->deadline)
			next = MIN(next, w->h->deadline);
		else
			expired = true;
	}
	if (expired)
		wait_wake(wl);
	return next;
}

void wait_poll(struct handle *h, struct pollwait *pw)
{
	if (h->poll)
		pollwait_free(h->poll);
	else
		TAILQ_INSERT_TAIL(&h->waitlist->polled, h, poll_link);
	h->poll = pw;
}

void wait_unpoll(struct handle *h)
{
	if (!h->poll)
		return;
	TAILQ_REMOVE(&h->waitlist->polled, h, poll_link);
	pollwait_free(h->poll);
	h->poll = NULL;
}
