/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1: requests and answers of one connection, one after the other. */
#include "h1.h"

#include <errno.h>
#include <http_parser.h>
#include <stdlib.h>

#include "h1_internal.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * http_parser reads, and what goes on is written anew from what it has read: a head of our own making, and a body by its length
 * or in chunks of our own. So there is one reading of each message, ours, and the server gets no other: what attackers hide
 * between two readers (lengths that contradict each other, folded lines, odd line ends) is either an error here or is gone.
 *
 * One request is on its way at a time. What a client sends ahead waits, unread, until the answer before is there.
 *
 *	H1_HEAD		reads a request's head
 *	H1_WAITS	somebody is asked whether it may go on
 *	H1_BODY		it has gone on, and its body is passed on
 *	H1_ANSWER	all of it has gone on: its answer is awaited
 *	H1_OVER		the last answer was given
 *
 * The answer may come while the body is still on its way; then both have to end before the next request is read.
 *
 * What is refused gets an answer of our own, and the connection ends.
 */

/* Both, the request and its answer, are whole? Then the next one may come. */
static void conclude(struct h1 *h)
{
	if (h->phase != H1_ANSWER || !h->answered)
		return;
	exchange_end(&h->x);
	if (!h->keeps[SIDE_GUEST] || !h->keeps[SIDE_HOST]) {
		h->phase = H1_OVER;
		proxy_finish(h->p);
		return;
	}
	http_parser_init(&h->request, HTTP_REQUEST);
	h->request.data = h;
	h->phase = H1_HEAD;
	h->head_lines = AT_START;
	h->answering = h->answered = false;
	proxy_go_on(h->p);
}

int h1_new(struct proxy *p, struct h1 **ret_h1)
{
	struct h1 *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->p = p;
	h->x.answered = h1_on_asked;
	cleanser_init(&h->cleanser, p, h1_pass_answer, h);
	http_parser_init(&h->request, HTTP_REQUEST);
	h->request.data = h;
	h1_expect_answer(h);
	*ret_h1 = h;
	return 0;
}

void h1_free(struct h1 *h)
{
	if (!h)
		return;
	exchange_end(&h->x);
	cleanser_fini(&h->cleanser);
	head_clear(&h->head);
	head_clear(&h->reply);
	buf_clear(&h->body);
	free(h);
}

/* What cannot be read as a request. */
static void bad_request(struct h1 *h)
{
	const bool known = h->x.state != EXCHANGE_NONE;

	if (!known)
		exchange_begin(&h->x, h->p->net, &h->p->to, "", "", "", NULL, false);
	h->x.reason = h->bad ? h->bad : NET_NOT_HTTP;
	h->x.state = EXCHANGE_REFUSED;
	h1_refuse(h);
}

static size_t take_request(struct h1 *h, const void *bytes, size_t len)
{
	enum http_errno err;
	size_t n;

	if (h->phase == H1_OVER)
		return len; /* it is not heard any more */
	if (h->phase != H1_HEAD && h->phase != H1_BODY)
		return 0;
	if (h->phase == H1_HEAD && !head_has_no_folds(&h->head_lines, bytes, len)) {
		bad_request(h);
		return len;
	}
	n = http_parser_execute(&h->request, &h1_request_calls, bytes, len);
	err = HTTP_PARSER_ERRNO(&h->request);
	if (err == HPE_PAUSED)
		http_parser_pause(&h->request, 0);
	else if (err != HPE_OK)
		bad_request(h);
	conclude(h);
	return n;
}

static size_t take_answer(struct h1 *h, const void *bytes, size_t len)
{
	enum http_errno err;
	size_t n;

	if (h->phase == H1_OVER)
		return len;
	if (h->x.state != EXCHANGE_GOES || h->phase == H1_HEAD) { /* nobody has asked */
		h->p->broken = true;
		return len;
	}
	if (h->answered)
		return 0;
	n = http_parser_execute(&h->answer, &h1_answer_calls, bytes, len);
	err = HTTP_PARSER_ERRNO(&h->answer);
	if (err != HPE_OK && err != HPE_PAUSED) {
		h1_fail(h, h->bad ? h->bad : NET_BAD_ANSWER);
		return len;
	}
	if (err == HPE_PAUSED && h->answer.status_code == 101 && h->websocket) {
		h->phase = H1_OVER;
		proxy_make_tunnel(h->p, &h->x);
		return n;
	}
	if (err == HPE_PAUSED)
		h1_expect_answer(h);
	conclude(h);
	return n;
}

size_t h1_take(struct h1 *h, enum side s, const void *bytes, size_t len)
{
	return s == SIDE_GUEST ? take_request(h, bytes, len) : take_answer(h, bytes, len);
}

bool h1_asks(const struct h1 *h)
{
	return h->phase == H1_WAITS && h->x.asker.ask;
}

void h1_ended(struct h1 *h, enum side s, bool cut)
{
	if (h->phase == H1_OVER)
		return;
	if (s == SIDE_GUEST) {
		/* One that waits for its answer may have it. */
		if (h->phase == H1_HEAD)
			proxy_finish(h->p);
		else if (h1_asks(h)) /* it is not sent later, when nobody is there for it */
			h1_fail(h, NET_HUNG_UP);
		else if (h->phase != H1_ANSWER)
			h->p->broken = true;
		else
			h->p->half_closed = true; /* the server hears that, and may end as well */
		return;
	}
	if (h->phase == H1_HEAD) { /* between two requests */
		proxy_finish(h->p);
		return;
	}
	if (h->phase ==
	    H1_WAITS) { /* whoever is asked may think for longer than the server waits */
		proxy_lose_server(h->p);
		return;
	}
	h->p->abrupt = cut;
	if (h->answering && !h->answered &&
	    http_parser_execute(&h->answer, &h1_answer_calls, "", 0) == 0 && h->answered) {
		h->keeps[SIDE_HOST] = false;
		if (h->phase == H1_BODY) { /* the server wants no more of it */
			exchange_end(&h->x);
			h->phase = H1_OVER;
			proxy_finish(h->p);
		}
		conclude(h);
		return;
	}
	if (h->answered) {
		h->keeps[SIDE_HOST] = false;
		conclude(h);
		return;
	}
	h1_fail(h, NET_BAD_ANSWER);
}

void h1_recheck(struct h1 *h)
{
	const unsigned reason = exchange_recheck(&h->x);

	if (reason != NET_OK)
		h1_fail(h, reason);
}
