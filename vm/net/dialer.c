/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's client of xsbxfs-dial, which makes all connections of a mount. */
#include "dialer.h"

#include <errno.h>
#include <string.h>

#include "vm/net/dial/message.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * Requests are kept until they are answered. One that can't be sent, because the process has just ended
 * and its socket is not closed yet, waits for the next process; one that was sent to a process that has
 * ended fails, because its progress is unknown.
 *
 * A request for a port that is cancelled before the answer may have been executed already; then the
 * socket arrives with an unexpected answer, and is closed. A new request for the same port is told that
 * it is taken, but after that answer: so it is sufficient to retry once.
 *
 * A process that ends soon after its start is not restarted at once; otherwise a guest with many
 * requests would keep a host busy on which the process can't run.
 */

#define PAUSE_MS 1000

static int on_packet(struct packets *p, const void *bytes, size_t len, int *fd);
static void on_ended(struct packets *p, int err);
static void on_closed(struct packets *p);

void dialer_init(struct dialer *d, uv_loop_t *loop)
{
	d->loop = loop;
	TAILQ_INIT(&d->requests);
	d->packets.packet = on_packet;
	d->packets.ended = on_ended;
	d->packets.closed = on_closed;
	d->packets.takes_fds = true;
}

/* It is not asked for any more. */
static void forget(struct dialer_request *rq)
{
	free(steal_ptr(rq->message));
	rq->id = 0;
}

static void finish(struct dialer_request *rq, int result, uint16_t port, int *fd)
{
	TAILQ_REMOVE(&rq->dialer->requests, rq, link);
	forget(rq);
	rq->done(rq, result, port, fd);
}

static int failure(const struct dialer_request *rq)
{
	return rq->listens ? -EPIPE : NET_UNREACHABLE;
}

/* Ends what was sent, or, with @all, everything. Those who are told may cancel others. */
static void fail_requests(struct dialer *d, bool all)
{
	struct dialer_request *rq;
	int none = -1;

	do {
		TAILQ_FOREACH(rq, &d->requests, link)
			if (rq->sent || all)
				break;
		if (rq)
			finish(rq, failure(rq), 0, &none);
	} while (rq);
}

static int send_request(struct dialer *d, struct dialer_request *rq)
{
	int r = packets_send(&d->packets, rq->message, rq->len, NULL, 0, -1);

	if (r < 0)
		return r;
	rq->sent = true;
	free(steal_ptr(rq->message));
	return 0;
}

static int make_listen(struct dialer_request *rq)
{
	struct dial_listen *msg = calloc(1, sizeof(*msg));

	rq->len = sizeof(*msg);
	rq->message = msg;
	if (!msg)
		return -ENOMEM;
	msg->header = (struct dial_header){DIAL_LISTEN, rq->id};
	msg->port = rq->port;
	return 0;
}

/* Return: whether an answer is still to come. */
static bool asks_again(struct dialer *d, struct dialer_request *rq, int result)
{
	if (!rq->insists || result != -EADDRINUSE)
		return false;
	rq->insists = false;
	return make_listen(rq) == 0 && send_request(d, rq) == 0;
}

static int on_packet(struct packets *p, const void *bytes, size_t len, int *fd)
{
	struct dialer *d = container_of(p, struct dialer, packets);
	const struct dial_done *msg = bytes;
	struct dialer_request *rq;

	if (len != sizeof(*msg) || msg->header.type != DIAL_DONE)
		return -EPROTO;
	TAILQ_FOREACH(rq, &d->requests, link)
		if (rq->sent && rq->id == msg->header.id)
			break;
	if (!rq)
		return 0; /* it was given up */
	if (*fd >= 0 && msg->result != 0)
		return -EPROTO;
	if (*fd < 0 && msg->result == 0) { /* no descriptor was left for it */
		finish(rq, failure(rq), 0, fd);
		return 0;
	}
	if (!rq->listens && (msg->result < 0 || msg->result >= NET_NREASONS))
		return -EPROTO;
	if (!asks_again(d, rq, msg->result))
		finish(rq, msg->result, msg->port, fd);
	return 0;
}

static void on_ended(struct packets *p, int err)
{
	struct dialer *d = container_of(p, struct dialer, packets);

	(void)err;
	packets_close(p);
	fail_requests(d, false);
}

/* Return: 0 if there is a process, or will be one: then requests are sent when its predecessor is gone. */
static int open_up(struct dialer *d)
{
	const uint64_t now = uv_now(d->loop);
	int r;

	if (d->in_use)
		return 0;
	if (d->started_at && now - d->started_at < PAUSE_MS)
		return -EAGAIN;
	d->started_at = now ? now : 1;
	r = d->start(d);
	if (r < 0)
		return r;
	if (packets_open(&d->packets, d->loop, r) < 0) {
		close(r);
		return -ENOMEM;
	}
	d->in_use = true;
	return 0;
}

static void on_closed(struct packets *p)
{
	struct dialer *d = container_of(p, struct dialer, packets);
	struct dialer_request *rq, *next;

	d->in_use = false;
	if (d->closing) {
		d->closed(d);
		return;
	}
	if (TAILQ_EMPTY(&d->requests))
		return;
	if (open_up(d) < 0) {
		fail_requests(d, true);
		return;
	}
	for (rq = TAILQ_FIRST(&d->requests); rq; rq = next) {
		int none = -1;

		next = TAILQ_NEXT(rq, link);
		if (!rq->sent && send_request(d, rq) < 0) {
			finish(rq, failure(rq), 0, &none);
			next = TAILQ_FIRST(&d->requests);
		}
	}
}

static int ask(struct dialer *d, struct dialer_request *rq)
{
	int r = d->closing ? -EPIPE : open_up(d);

	if (r == 0 && d->packets.open && TAILQ_EMPTY(&d->requests) && d->is_stale &&
	    d->is_stale(d)) {
		packets_close(&d->packets);
		d->started_at = 0;
	}
	rq->dialer = d;
	rq->sent = false;
	if (r == 0 && d->packets.open)
		r = send_request(d, rq);
	if (r < 0) {
		forget(rq);
		return r;
	}
	TAILQ_INSERT_TAIL(&d->requests, rq, link);
	return 0;
}

static uint32_t new_id(struct dialer *d)
{
	if (++d->last_id == 0)
		d->last_id++;
	return d->last_id;
}

int dialer_connect(struct dialer *d, struct dialer_request *rq, const struct dialer_target *to)
{
	struct dial_connect *msg;

	rq->listens = false;
	rq->len = sizeof(*msg) + to->nspared * sizeof(*to->spared);
	rq->message = msg = calloc(1, rq->len);
	if (!msg)
		return -ENOMEM;
	rq->id = new_id(d);
	msg->header = (struct dial_header){DIAL_CONNECT, rq->id};
	msg->owner = to->owner;
	msg->user = to->user;
	msg->address = to->address;
	msg->port = to->port;
	msg->anywhere = to->anywhere;
	snprintf(msg->name, sizeof(msg->name), "%s", to->name);
	if (to->nspared)
		memcpy(msg + 1, to->spared, to->nspared * sizeof(*to->spared));
	return ask(d, rq);
}

int dialer_listen(struct dialer *d, struct dialer_request *rq, uint16_t port)
{
	rq->listens = true;
	rq->port = port;
	rq->insists = d->gave_up && port;
	rq->id = new_id(d);
	if (make_listen(rq) < 0) {
		rq->id = 0;
		return -ENOMEM;
	}
	return ask(d, rq);
}

void dialer_cancel(struct dialer_request *rq)
{
	const struct dial_header msg = {DIAL_CANCEL, rq->id};

	if (!rq->id)
		return;
	if (rq->sent && !rq->listens)
		(void)packets_send(&rq->dialer->packets, &msg, sizeof(msg), NULL, 0, -1);
	rq->dialer->gave_up |= rq->sent && rq->listens;
	TAILQ_REMOVE(&rq->dialer->requests, rq, link);
	forget(rq);
}

void dialer_close(struct dialer *d)
{
	if (d->closing)
		return;
	d->closing = true;
	packets_close(&d->packets);
	fail_requests(d, true);
	if (!d->in_use)
		d->closed(d);
}
