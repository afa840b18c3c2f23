/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2: a request and its answer, a stream on either side. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "dress.h"
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
	cleanser_init(&s->cleanser, h->p, h2_body_clean, s);
	TAILQ_INSERT_TAIL(&h->streams, s, link);
	h->nstreams++;
	return s;
}

void h2_sweep(struct h2 *h)
{
	struct h2_stream *s, *next;

	for (s = TAILQ_FIRST(&h->streams); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (s->id[SIDE_GUEST] || s->id[SIDE_HOST])
			continue;
		exchange_end(&s->x);
		h2_body_ignore(s, SIDE_GUEST);
		h2_body_ignore(s, SIDE_HOST);
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
	h2_body_ignore(s, from);
}

/* ---- answers of ours ---- */

static const nghttp2_data_provider body = {.read_callback = h2_body_data};

/* The text that refuses it, or says what went wrong. */
static void answer(struct h2_stream *s)
{
	struct h2_half *half = &s->half[SIDE_HOST];
	const bool bare = !strcmp(s->x.method, "HEAD");
	char text[1400], status[4], length[24];
	struct h2_fields fields;

	s->x.status = exchange_explain(&s->x, text, sizeof(text));
	h2_body_ignore(s, SIDE_HOST);
	h2_body_ignore(s, SIDE_GUEST);
	s->answering = true;
	put_status(s->x.status, status);
	snprintf(length, sizeof(length), "%zu", strlen(text));
	h2_head_answer(status, NULL, &fields);
	h2_fields_add(&fields, "content-type", "text/plain; charset=utf-8");
	h2_fields_add(&fields, "content-length", length);
	h2_fields_add(&fields, "x-xsbxfs", net_reason_str(s->x.reason));
	if (!bare)
		(void)h2_body_keep(s, SIDE_HOST, text, strlen(text));
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

static void send_head(struct h2_stream *s)
{
	struct h2_half *half = &s->half[SIDE_GUEST];
	struct h2 *h = s->h;
	struct h2_fields fields;
	int32_t id = -1;

	if (!h->gone) {
		h2_head_request(&s->first, half->head, *s->x.secret, &fields);
		id = nghttp2_submit_request(h->session[SIDE_HOST], NULL, fields.nv, fields.n,
					    has_body(half) ? &body : NULL, s);
	}
	h2_free_head(&half->head);
	if (id < 0) {
		put_back(s, NET_UNREACHABLE);
		return;
	}
	s->id[SIDE_HOST] = id;
	s->x.bytes_out += fields.bytes;
	h->heads[SIDE_HOST] += fields.bytes;
}

/* A body that is short enough to be looked through before its head goes on. */
static bool is_short(const struct h2_half *half)
{
	const char *length = head_value(half->head, "content-length");

	return half->ended ||
	       (length && strtoull(length, NULL, 10) <= MIN(DRESS_BODY_MAX, H2_WINDOW));
}

static void gather(struct h2_stream *s)
{
	struct head *head = s->half[SIDE_GUEST].head;
	struct h2_fields fields;

	s->gathers = true;
	if (!head_has_token(head, "expect", "100-continue"))
		return;
	head_remove(head, "expect");
	h2_head_answer("100", NULL, &fields);
	(void)nghttp2_submit_headers(s->h->session[SIDE_GUEST], NGHTTP2_FLAG_NONE,
				     s->id[SIDE_GUEST], NULL, fields.nv, fields.n, NULL);
}

/* All of the body is there. */
static void send_gathered(struct h2_stream *s)
{
	struct h2_half *half = &s->half[SIDE_GUEST];
	const size_t before = half->kept.len;
	char length[24];
	unsigned reason;

	s->gathers = false;
	reason = dress_body(&s->x, head_value(half->head, "content-type"), &half->kept);
	s->h->kept[SIDE_GUEST] += half->kept.len - before;
	s->h->p->net->h2_kept += half->kept.len - before;
	if (reason != NET_OK) {
		h2_stream_fail(s, reason);
		return;
	}
	snprintf(length, sizeof(length), "%zu", half->kept.len);
	if (head_find(half->head, "content-length", 0) >= 0) {
		head_remove(half->head, "content-length");
		(void)head_add(half->head, "content-length", length);
	}
	send_head(s);
}

/* The request goes on. */
static void send_request(struct h2_stream *s)
{
	struct h2_half *half = &s->half[SIDE_GUEST];
	bool in_body;
	const unsigned reason = dress_request(&s->x, half->head, &s->h->p->sent, &in_body);

	if (reason != NET_OK)
		h2_stream_fail(s, reason);
	else if (!in_body || !is_short(half))
		send_head(s);
	else if (half->ended)
		send_gathered(s);
	else
		gather(s);
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
	unsigned reason;
	int r;

	if (s->bad || (interim && ++s->interim > H2_INTERIM_MAX)) {
		h2_stream_fail(s, NET_BAD_ANSWER);
		return;
	}
	head_end(half->head);
	reason = cleanse_head(s->h->p, &s->x, half->head, false);
	s->cleanser.streams = cleanse_streams(half->head);
	if (reason != NET_OK) {
		h2_stream_fail(s, reason);
		return;
	}
	put_status(s->first.status, status);
	h2_head_answer(status, half->head, &fields);
	if (interim)
		r = nghttp2_submit_headers(guest, NGHTTP2_FLAG_NONE, s->id[SIDE_GUEST], NULL,
					   fields.nv, fields.n, NULL);
	else
		r = nghttp2_submit_response(guest, s->id[SIDE_GUEST], fields.nv, fields.n,
					    has_body(half) ? &body : NULL);
	h2_free_head(&half->head);
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
		h2_body_wake(s, !from);
	} else if (from == SIDE_HOST) {
		send_answer(s);
	} else {
		half->begun = true;
		begin(s);
	}
}

/* ---- closed ---- */

void h2_stream_end(struct h2_stream *s, enum side from)
{
	if (from == SIDE_HOST && !s->half[from].ignored)
		cleanser_finish(&s->cleanser);
	s->half[from].ended = true;
	if (from == SIDE_GUEST && s->gathers && !s->half[from].ignored)
		send_gathered(s);
}

static void closed_by_guest(struct h2_stream *s, uint32_t code)
{
	const bool whole = s->half[SIDE_GUEST].ended && s->delivered && code == NGHTTP2_NO_ERROR;

	if (!whole) /* otherwise the server may still have to read the rest */
		h2_stream_leave(s, SIDE_HOST, code == NGHTTP2_NO_ERROR ? NGHTTP2_CANCEL : code);
	h2_body_ignore(s, SIDE_HOST);
	if (!s->id[SIDE_HOST])
		h2_body_ignore(s, SIDE_GUEST);
}

static void closed_by_server(struct h2_stream *s, uint32_t code)
{
	h2_body_ignore(s, SIDE_GUEST);
	if (s->half[SIDE_HOST].ended)
		return;
	if (s->reset) {
		exchange_fail(&s->x, NET_BAD_ANSWER);
		h2_stream_leave(s, SIDE_GUEST,
				code == NGHTTP2_NO_ERROR ? NGHTTP2_INTERNAL_ERROR : code);
	} else if (!s->sent ||
		   code == NGHTTP2_REFUSED_STREAM) { /* it is behind the last one of a GOAWAY */
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
	h2_body_ignore(s, SIDE_GUEST);
	if (s->half[SIDE_HOST].ended)
		return;
	if (known) {
		h2_stream_fail(s, reason);
	} else {
		put_back(s, reason);
	}
}
