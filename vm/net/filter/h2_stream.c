/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2: a request and its answer, a stream on either side. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "h2.h"
#include "h2_internal.h"
#include "net.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * A stream of the guest is an exchange. What its head says is judged, and then it is submitted to the server as a stream of ours; its
 * body goes into `kept` as it comes, and from there into the frames of the other side as the library asks for it. For what has
 * been taken the sender gets room for more (WINDOW_UPDATE): so a slow reader slows its writer down, through us, and a stream keeps
 * no more than its window. A request that waits for leave is one whose body nobody takes yet.
 *
 * What we answer ourselves is put into `kept` as if the server had said it.
 *
 * A stream ends on both sides by itself; or one of them ends it, and the other hears of that by the same code. It has gone on one
 * side when its id there is 0: the library knows it no longer, or no longer knows that it is ours.
 */

static void put_status(unsigned status, char ret[static 4])
{
	snprintf(ret, 4, "%03u", status % 1000);
}

/* ---- begun and ended ---- */

static void on_answered(struct exchange *x);

struct h2_stream *h2_stream_new(struct h2 *h, int32_t id)
{
	struct h2_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->h = h;
	s->id[SIDE_GUEST] = id;
	s->x.answered = on_answered;
	TAILQ_INSERT_TAIL(&h->streams, s, link);
	h->nstreams++;
	return s;
}

static void free_head(struct head **head)
{
	if (*head)
		head_clear(*head);
	free(*head);
	*head = NULL;
}

/* The sender gets room for so much more on the connection, unless too much is kept. */
static void make_room(struct h2 *h, enum side from, size_t len)
{
	h->owed[from] += len;
	if (h->kept[from] > (h->p->net->h2_kept > H2_KEEPS_ALL ? H2_WINDOW : H2_KEEPS))
		return;
	(void)nghttp2_session_consume_connection(h->session[from], h->owed[from]);
	h->owed[from] = 0;
}

/* Bytes of a body wait. */
static int keep(struct h2_stream *s, enum side from, const void *bytes, size_t len)
{
	struct h2_half *half = &s->half[from];

	if (half->at > 0 && half->at >= half->kept.len / 2) {
		half->kept.len -= half->at;
		memmove(half->kept.data, half->kept.data + half->at, half->kept.len);
		half->at = 0;
	}
	if (buf_append(&half->kept, bytes, len) < 0)
		return -ENOMEM;
	s->h->kept[from] += len;
	s->h->p->net->h2_kept += len;
	return 0;
}

/* ... and no more. */
static void take(struct h2_stream *s, enum side from, size_t len)
{
	struct h2_half *half = &s->half[from];
	struct h2 *h = s->h;

	half->at += len;
	h->kept[from] -= len;
	h->p->net->h2_kept -= len;
	if (half->at == half->kept.len) {
		buf_clear(&half->kept);
		half->at = 0;
	}
	make_room(h, from, 0);
	if (s->id[from] && len > 0)
		(void)nghttp2_session_consume_stream(h->session[from], s->id[from], len);
}

/* Nobody wants what comes, or will come, from this side. */
static void ignore(struct h2_stream *s, enum side from)
{
	struct h2_half *half = &s->half[from];

	half->ignored = true;
	take(s, from, half->kept.len - half->at);
	free_head(&half->head);
	free_head(&half->trailer);
}

void h2_sweep(struct h2 *h)
{
	struct h2_stream *s, *next;

	for (s = TAILQ_FIRST(&h->streams); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (s->id[SIDE_GUEST] || s->id[SIDE_HOST])
			continue;
		exchange_end(&s->x);
		ignore(s, SIDE_GUEST);
		ignore(s, SIDE_HOST);
		TAILQ_REMOVE(&h->streams, s, link);
		h->nstreams--;
		free(s);
	}
}

void h2_stream_leave(struct h2_stream *s, enum side from, uint32_t code)
{
	nghttp2_session *session = s->h->session[from];

	if (!s->id[from])
		return;
	(void)nghttp2_session_set_stream_user_data(session, s->id[from], NULL);
	(void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, s->id[from], code);
	s->id[from] = 0;
	ignore(s, from);
}

void h2_stream_wake(struct h2_stream *s, enum side to)
{
	struct h2_half *half = &s->half[!to];

	if (!half->waits || !s->id[to])
		return;
	half->waits = false;
	(void)nghttp2_session_resume_data(s->h->session[to], s->id[to]);
}

/* ---- answers of ours ---- */

static const nghttp2_data_provider body = {.read_callback = h2_read_data};

/* The text that refuses it, or says what went wrong. */
static void answer(struct h2_stream *s)
{
	struct h2_half *half = &s->half[SIDE_HOST];
	const bool bare = !strcmp(s->x.method, "HEAD");
	char text[1400], status[4], length[24];
	struct h2_fields fields;

	s->x.status = exchange_explain(&s->x, text, sizeof(text));
	ignore(s, SIDE_HOST);
	ignore(s, SIDE_GUEST);
	s->answering = true;
	put_status(s->x.status, status);
	snprintf(length, sizeof(length), "%zu", strlen(text));
	h2_head_answer(status, NULL, &fields);
	h2_fields_add(&fields, "content-type", "text/plain; charset=utf-8");
	h2_fields_add(&fields, "content-length", length);
	h2_fields_add(&fields, "x-xsbxfs", net_reason_str(s->x.reason));
	if (!bare)
		(void)keep(s, SIDE_HOST, text, strlen(text));
	half->ended = true;
	s->h->heads[SIDE_GUEST] += fields.bytes;
	if (nghttp2_submit_response(s->h->session[SIDE_GUEST], s->id[SIDE_GUEST], fields.nv,
				    fields.n, bare ? NULL : &body) < 0)
		h2_stream_leave(s, SIDE_GUEST, NGHTTP2_INTERNAL_ERROR);
}

void h2_stream_fail(struct h2_stream *s, unsigned reason)
{
	exchange_fail(&s->x, reason);
	h2_stream_leave(s, SIDE_HOST, NGHTTP2_CANCEL);
	if (s->answering)
		h2_stream_leave(s, SIDE_GUEST,
				s->x.state == EXCHANGE_REFUSED ? NGHTTP2_CANCEL
							       : NGHTTP2_INTERNAL_ERROR);
	else if (s->id[SIDE_GUEST])
		answer(s);
}

/* The server has not heard of it: so the client may try again. */
static void put_back(struct h2_stream *s, unsigned reason)
{
	exchange_fail(&s->x, reason);
	h2_stream_leave(s, SIDE_HOST, NGHTTP2_CANCEL);
	h2_stream_leave(s, SIDE_GUEST, NGHTTP2_REFUSED_STREAM);
}

/* ---- requests ---- */

/* Is there something behind the head? */
static bool has_body(const struct h2_half *half)
{
	return !half->ended || half->trailer || half->kept.len > half->at;
}

static void send_request(struct h2_stream *s)
{
	struct h2_half *half = &s->half[SIDE_GUEST];
	struct h2 *h = s->h;
	struct h2_fields fields;
	int32_t id = -1;

	if (!h->gone) {
		h2_head_request(&s->first, half->head, &fields);
		id = nghttp2_submit_request(h->session[SIDE_HOST], NULL, fields.nv, fields.n,
					    has_body(half) ? &body : NULL, s);
	}
	free_head(&half->head);
	if (id < 0) {
		put_back(s, NET_UNREACHABLE);
		return;
	}
	s->id[SIDE_HOST] = id;
	s->x.bytes_out += fields.bytes;
	h->heads[SIDE_HOST] += fields.bytes;
}

static void go_on(struct h2_stream *s)
{
	if (s->x.state == EXCHANGE_GOES)
		send_request(s);
	else if (s->x.state == EXCHANGE_REFUSED)
		h2_stream_fail(s, s->x.reason);
}

static void on_answered(struct exchange *x)
{
	struct h2_stream *s = container_of(x, struct h2_stream, x);

	go_on(s);
	proxy_go_on(s->h->p);
}

/* The host that it is for; NULL: it names none; "?" if it names two. */
static const char *authority_of(const struct h2_stream *s)
{
	const struct head *head = s->half[SIDE_GUEST].head;
	const char *host = head_value(head, "Host");
	const bool has_host = head_find(head, "Host", 0) >= 0;

	if (!s->first.has_authority)
		return has_host && !host ? "?" : host;
	if (has_host && (!host || strcasecmp(host, s->first.authority) != 0))
		return "?";
	return s->first.authority;
}

/* As HTTP/1 has them here: servers may take other letters for these, and WEBSOCKET is what rules say of a switch to that. */
static bool is_method(const char *method)
{
	return *method && !method[strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-")] &&
	       strcmp(method, RULES_WEBSOCKET) != 0;
}

static void begin(struct h2_stream *s)
{
	struct proxy *p = s->h->p;
	struct head *head = s->half[SIDE_GUEST].head;
	const char *path = buf_str(&head->first);
	const bool connects = !strcmp(
		s->first.method, "CONNECT"); /* which has no scheme and no path, and is not made */

	head_end(head);
	if (s->bad || !path || !is_method(s->first.method) ||
	    strcasecmp(s->first.scheme, connects ? "" : p->to.scheme) != 0) {
		exchange_begin(&s->x, p->net, &p->to, "2", s->first.method, path ? path : "", NULL,
			       false);
		s->x.reason = NET_NOT_HTTP;
		h2_stream_fail(s, NET_NOT_HTTP);
		return;
	}
	exchange_begin(&s->x, p->net, &p->to, "2", s->first.method, path, authority_of(s), false);
	go_on(s);
}

/* ---- answers ---- */

static void send_answer(struct h2_stream *s)
{
	struct h2_half *half = &s->half[SIDE_HOST];
	nghttp2_session *guest = s->h->session[SIDE_GUEST];
	const bool interim = s->first.status / 100 == 1;
	struct h2_fields fields;
	char status[4];
	int r;

	if (s->bad || (interim && ++s->interim > H2_INTERIM_MAX)) {
		h2_stream_fail(s, NET_BAD_ANSWER);
		return;
	}
	head_end(half->head);
	put_status(s->first.status, status);
	h2_head_answer(status, half->head, &fields);
	if (interim)
		r = nghttp2_submit_headers(guest, NGHTTP2_FLAG_NONE, s->id[SIDE_GUEST], NULL,
					   fields.nv, fields.n, NULL);
	else
		r = nghttp2_submit_response(guest, s->id[SIDE_GUEST], fields.nv, fields.n,
					    has_body(half) ? &body : NULL);
	free_head(&half->head);
	s->x.status = s->first.status;
	s->x.bytes_in += fields.bytes;
	half->begun = s->answering = !interim;
	if (r < 0)
		h2_stream_fail(s, NET_BAD_ANSWER);
	else
		s->h->heads[SIDE_GUEST] += fields.bytes;
}

void h2_stream_head(struct h2_stream *s, enum side from)
{
	struct h2_half *half = &s->half[from];

	if (half->begun || half->ignored || !half->head) {
		h2_stream_wake(s, !from);
	} else if (from == SIDE_HOST) {
		send_answer(s);
	} else {
		half->begun = true;
		begin(s);
	}
}

/* ---- bodies ---- */

int h2_stream_body(struct h2_stream *s, enum side from, const void *bytes, size_t len)
{
	struct h2_half *half = &s->half[from];
	struct h2 *h = s->h;

	*(from == SIDE_GUEST ? &s->x.bytes_out : &s->x.bytes_in) += len;
	if (half->ignored) {
		(void)nghttp2_session_consume(h->session[from], s->id[from], len);
		return 0;
	}
	if (keep(s, from, bytes, len) < 0)
		return -ENOMEM;
	make_room(h, from, len);
	h2_stream_wake(s, !from);
	return 0;
}

/* Who reads this fast may have more at once. */
static void grow(struct h2_stream *s, enum side from)
{
	struct h2_half *half = &s->half[from];

	if (half->grown || half->passed < H2_WINDOW || !s->id[from] || s->h->kept[from] > H2_WINDOW)
		return;
	half->grown = true;
	(void)nghttp2_session_set_local_window_size(s->h->session[from], NGHTTP2_FLAG_NONE,
						    s->id[from], H2_WINDOW_GROWN);
}

static void give_trailer(struct h2_stream *s, enum side to, uint32_t *flags)
{
	struct h2_half *half = &s->half[!to];
	struct h2_fields fields;

	h2_head_trailer(half->trailer, &fields);
	if (fields.n > 0 &&
	    nghttp2_submit_trailer(s->h->session[to], s->id[to], fields.nv, fields.n) == 0) {
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		s->h->heads[to] += fields.bytes;
	}
	free_head(&half->trailer);
}

ssize_t h2_stream_give(struct h2_stream *s, enum side to, uint8_t *bytes, size_t size,
		       uint32_t *flags)
{
	struct h2_half *half = &s->half[!to];
	const size_t n = MIN(size, half->kept.len - half->at);

	if (n > 0) {
		memcpy(bytes, half->kept.data + half->at, n);
		half->passed += n;
		take(s, !to, n);
		grow(s, !to);
	}
	if (half->ended && half->at == half->kept.len) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (half->trailer)
			give_trailer(s, to, flags);
	} else if (n == 0) {
		half->waits = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	return (ssize_t)n;
}

/* ---- closed ---- */

static void closed_by_guest(struct h2_stream *s, uint32_t code)
{
	const bool whole = s->half[SIDE_GUEST].ended && s->delivered && code == NGHTTP2_NO_ERROR;

	if (!whole) /* otherwise the server may still have to read the rest */
		h2_stream_leave(s, SIDE_HOST, code == NGHTTP2_NO_ERROR ? NGHTTP2_CANCEL : code);
	ignore(s, SIDE_HOST);
	if (!s->id[SIDE_HOST])
		ignore(s, SIDE_GUEST);
}

static void closed_by_server(struct h2_stream *s, uint32_t code)
{
	ignore(s, SIDE_GUEST);
	if (s->half[SIDE_HOST].ended) {
		if (s->delivered && !s->half[SIDE_GUEST].ended)
			h2_stream_leave(s, SIDE_GUEST, NGHTTP2_NO_ERROR);
	} else if (!s->sent) {
		put_back(s, NET_UNREACHABLE);
	} else if (s->reset) {
		exchange_fail(&s->x, NET_BAD_ANSWER);
		h2_stream_leave(s, SIDE_GUEST,
				code == NGHTTP2_NO_ERROR ? NGHTTP2_INTERNAL_ERROR : code);
	} else if (code == NGHTTP2_REFUSED_STREAM) { /* it is behind the last one of a GOAWAY */
		put_back(s, NET_UNREACHABLE);
	} else {
		h2_stream_fail(s, NET_BAD_ANSWER);
	}
}

void h2_stream_closed(struct h2_stream *s, enum side by, uint32_t code)
{
	s->id[by] = 0;
	if (by == SIDE_GUEST)
		closed_by_guest(s, code);
	else
		closed_by_server(s, code);
}

void h2_stream_orphan(struct h2_stream *s, unsigned reason)
{
	const bool known = s->id[SIDE_HOST] && s->sent;

	s->id[SIDE_HOST] = 0;
	ignore(s, SIDE_GUEST);
	if (s->half[SIDE_HOST].ended) {
		if (s->delivered && !s->half[SIDE_GUEST].ended)
			h2_stream_leave(s, SIDE_GUEST, NGHTTP2_NO_ERROR);
	} else if (known) {
		h2_stream_fail(s, reason);
	} else {
		put_back(s, reason);
	}
}
