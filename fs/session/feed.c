/* SPDX-License-Identifier: Apache-2.0 */
/* Standard input of one run. See feed.h. */
#include "feed.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/request/reply.h"
#include "vm/base/util.h"

/* A write that waits for room. */
struct parked {
	TAILQ_ENTRY(parked) link;
	struct feed *feed;
	struct req *req;
	size_t len;
	char data[];
};

void feed_init(struct feed *f)
{
	*f = (struct feed){0};
	TAILQ_INIT(&f->parked);
}

void feed_fini(struct feed *f)
{
	assert(TAILQ_EMPTY(&f->parked));
	buf_clear(&f->data);
}

void feed_begin(struct feed *f, struct buf *data)
{
	assert(f->state == FEED_CLOSED);
	f->data = *data;
	*data = (struct buf){0};
	f->state = FEED_ENDING;
}

void feed_keep_open(struct feed *f, bool typed)
{
	assert(f->state == FEED_ENDING || f->state == FEED_OPEN);
	f->state = FEED_OPEN;
	f->typed = typed;
}

bool feed_is_open(const struct feed *f)
{
	return f->state == FEED_OPEN;
}

size_t feed_len(const struct feed *f)
{
	return f->data.len - f->sent;
}

size_t feed_bytes(const struct feed *f)
{
	return feed_len(f) + f->parked_len;
}

bool feed_is_full(const struct feed *f)
{
	return feed_len(f) >= FEED_FULL;
}

bool feed_any(const struct feed *f)
{
	return feed_is_open(f) || feed_len(f) > 0;
}

void feed_started(struct feed *f)
{
	if (!feed_any(f))
		feed_over(f);
}

void feed_join(struct feed *f)
{
	f->nwriters++;
	if (f->state == FEED_ENDING)
		f->state = FEED_OPEN;
}

void feed_leave(struct feed *f)
{
	assert(f->nwriters > 0);
	if (--f->nwriters == 0 && !f->typed)
		feed_end(f);
}

/* ---- writes ---- */

int feed_write(struct feed *f, const void *data, size_t len)
{
	if (f->state != FEED_OPEN)
		return -EPIPE;
	if (feed_is_full(f))
		return -EAGAIN;
	return buf_append(&f->data, data, len);
}

static struct req *unpark(struct parked *p)
{
	struct req *req = p->req;

	TAILQ_REMOVE(&p->feed->parked, p, link);
	p->feed->parked_len -= p->len;
	free(p);
	return req;
}

static void on_interrupt(struct req *req, void *data)
{
	(void)req;
	reply_err(unpark(data), -EINTR);
}

void feed_park(struct feed *f, struct req *req, const void *data, size_t len)
{
	struct parked *p = malloc(sizeof(*p) + len);

	if (!p) {
		reply_err(req, -ENOMEM);
		return;
	}
	p->feed = f;
	p->req = req;
	p->len = len;
	memcpy(p->data, data, len);
	TAILQ_INSERT_TAIL(&f->parked, p, link);
	f->parked_len += len;
	req_on_interrupt(req, on_interrupt, p); /* may call it at once, and end @p */
}

/* Answers the first of those that wait. */
static void let_in(struct feed *f)
{
	struct parked *p = TAILQ_FIRST(&f->parked);
	const size_t len = p->len;
	const int e = feed_write(f, p->data, len);

	req_on_interrupt(p->req, NULL, NULL);
	if (e < 0)
		reply_err(unpark(p), e);
	else
		reply_write(unpark(p), len);
}

static void turn_away(struct feed *f)
{
	while (!TAILQ_EMPTY(&f->parked))
		let_in(f);
}

void feed_interrupt(struct feed *f)
{
	struct parked *p;

	while ((p = TAILQ_FIRST(&f->parked))) {
		req_on_interrupt(p->req, NULL, NULL);
		reply_err(unpark(p), -EINTR);
	}
}

/* ---- to the sandbox ---- */

/* Return: whether it has taken any, or the end. */
static bool hand_over(struct feed *f, feed_send_fn send, void *arg)
{
	const size_t len = feed_len(f);
	const bool last = f->state == FEED_ENDING;
	size_t n = 0;

	if (f->state == FEED_OVER || (!len && !last))
		return false;
	if (send(arg, f->data.data ? f->data.data + f->sent : "", len, last, &n) && last) {
		feed_over(f);
		return true;
	}
	f->sent += n;
	f->taken += n;
	if (f->sent == f->data.len) {
		f->sent = 0;
		f->data.len = 0;
	} else if (f->data.data && f->sent >= FEED_FULL) {
		memmove(f->data.data, f->data.data + f->sent, f->data.len - f->sent);
		f->data.len -= f->sent;
		f->sent = 0;
	}
	return n > 0;
}

bool feed_send(struct feed *f, feed_send_fn send, void *arg)
{
	bool any = false;

	while (hand_over(f, send, arg)) {
		any = true;
		while (f->state == FEED_OPEN && !feed_is_full(f) && !TAILQ_EMPTY(&f->parked))
			let_in(f);
	}
	return any;
}

void feed_end(struct feed *f)
{
	if (f->state != FEED_OPEN)
		return;
	f->state = FEED_ENDING;
	turn_away(f);
}

void feed_over(struct feed *f)
{
	f->state = FEED_OVER;
	buf_clear(&f->data);
	f->sent = 0;
	turn_away(f);
}
