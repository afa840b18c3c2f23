/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2: requests and answers of one connection, side by side. */
#include "h2.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "h2_internal.h"
#include "net.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * Two sessions of nghttp2: to the guest we are a server, to the server a client. What one of them reads arrives here in callbacks, is
 * handed to the stream (h2_stream.c), and that submits something to the other session; h2_run() has both of them write what they
 * have. So nothing is passed on that nghttp2 has not read and written anew: frames that are none, fields of HTTP/1 and promises
 * end here.
 *
 * What a connection can keep is bounded: a stream by its window, all of a side by H2_KEEPS and the connection's window, heads by
 * H2_HEADS_MAX, and answers that the library owes (to PING, SETTINGS, streams that are none) by H2_QUEUE_MAX. More of that is what
 * no client or server does that means well, and the connection ends. A side that does not read gets no more than PROXY_KEEPS, and
 * what is for it stays with the streams.
 *
 * When the server says that it will go (GOAWAY), or goes, the guest is told the same: clients then begin a new connection. What
 * the server has not heard of is given back as REFUSED_STREAM, which they repeat; what it has begun to answer is cut off; and for the
 * rest we say what has happened.
 */

#define GATHER_MAX 16384 /* frames that are handed on together, from that size on */

/* ---- read ---- */

static int begin_stream(struct h2 *h, int32_t id)
{
	struct h2_stream *s = h->nstreams < H2_LINGER_MAX ? h2_stream_new(h, id) : NULL;

	if (!s)
		return nghttp2_submit_rst_stream(h->session[SIDE_GUEST], NGHTTP2_FLAG_NONE, id,
						 NGHTTP2_REFUSED_STREAM);
	return nghttp2_session_set_stream_user_data(h->session[SIDE_GUEST], id, s);
}

static int on_begin_fields(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
	struct h2 *h = data;
	const enum side from = h2_side(h, session);
	struct h2_stream *s;
	struct head **head;

	if (frame->hd.type != NGHTTP2_HEADERS)
		return 0;
	if (frame->headers.cat == NGHTTP2_HCAT_REQUEST && begin_stream(h, frame->hd.stream_id) < 0)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	s = h2_find(session, frame->hd.stream_id);
	if (!s || s->half[from].ignored)
		return 0;
	head = s->half[from].begun ? &s->half[from].trailer : &s->half[from].head;
	if (!*head)
		*head = calloc(1, sizeof(**head));
	return *head ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_field(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		    size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
		    void *data)
{
	const enum side from = h2_side(data, session);
	struct h2_stream *s = h2_find(session, frame->hd.stream_id);
	struct h2_half *half = s ? &s->half[from] : NULL;
	struct head *head = !half ? NULL : half->begun ? half->trailer : half->head;

	(void)flags;
	if (head && !s->bad && h2_head_read(&s->first, head, name, name_len, value, value_len) < 0)
		s->bad = true;
	return 0;
}

/* A trailer that is none. */
static bool is_bad_trailer(const struct h2_stream *s, enum side from)
{
	return s->bad && s->half[from].trailer;
}

/* Return: whether a side makes more work than it takes off. */
static bool floods(struct h2 *h)
{
	for (int s = 0; s < 2; s++) {
		if (nghttp2_session_get_outbound_queue_size(h->session[s]) == 0)
			h->heads[s] = 0;
		if (h->heads[s] > H2_HEADS_MAX ||
		    nghttp2_session_get_outbound_queue_size(h->session[s]) > H2_QUEUE_MAX)
			return true;
	}
	return false;
}

/* The guest is told to make no more requests here. */
static void say_goodbye(struct h2 *h)
{
	nghttp2_session *guest = h->session[SIDE_GUEST];

	if (!h->goodbye)
		(void)nghttp2_submit_goaway(guest, NGHTTP2_FLAG_NONE,
					    nghttp2_session_get_last_proc_stream_id(guest),
					    NGHTTP2_NO_ERROR, NULL, 0);
	h->goodbye = true;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
	struct h2 *h = data;
	const enum side from = h2_side(h, session);
	struct h2_stream *s = h2_find(session, frame->hd.stream_id);
	const bool is_message = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;

	if (s && is_message && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		h2_stream_end(s, from);
	if (s && is_bad_trailer(s, from)) {
		exchange_fail(&s->x, from == SIDE_GUEST ? NET_NOT_HTTP : NET_BAD_ANSWER);
		h2_stream_leave(s, !from, NGHTTP2_PROTOCOL_ERROR);
		h2_stream_leave(s, from, NGHTTP2_PROTOCOL_ERROR);
	} else if (s && frame->hd.type == NGHTTP2_HEADERS) {
		h2_stream_head(s, from);
	} else if (s && is_message && s->half[from].ended) {
		h2_body_wake(s, !from);
	} else if (s && frame->hd.type == NGHTTP2_RST_STREAM) {
		s->reset = s->reset || from == SIDE_HOST;
	} else if (from == SIDE_HOST && frame->hd.type == NGHTTP2_GOAWAY) {
		say_goodbye(h);
	}
	return floods(h) ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
		   size_t len, void *data)
{
	struct h2_stream *s = h2_find(session, id);

	(void)flags;
	if (!s)
		return nghttp2_session_consume(session, id, len) < 0 ? NGHTTP2_ERR_CALLBACK_FAILURE
								     : 0;
	if (h2_body_read(s, h2_side(data, session), bytes, len) < 0)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	/* It was answered, and nobody reads the rest. Clients that hear that too early may miss the answer (curl 7.88). */
	if (s->delivered && s->half[SIDE_GUEST].ignored && s->half[SIDE_GUEST].passed > H2_WINDOW)
		h2_stream_leave(s, SIDE_GUEST, NGHTTP2_NO_ERROR);
	return 0;
}

/* Those who begin requests only to give them up make a server work for nothing. */
static void count_reset(struct h2 *h)
{
	const time_t now = h->p->net->now;

	if (now - h->resets_since > H2_RESETS_S) {
		h->resets_since = now;
		h->resets = 0;
	}
	if (++h->resets > H2_RESETS_MAX)
		(void)nghttp2_session_terminate_session(h->session[SIDE_GUEST],
							NGHTTP2_ENHANCE_YOUR_CALM);
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *data)
{
	struct h2 *h = data;
	struct h2_stream *s = h2_find(session, id);

	if (!s)
		return 0;
	if (session == h->session[SIDE_GUEST] && code != NGHTTP2_NO_ERROR && !s->answering)
		count_reset(h);
	h2_stream_closed(s, h2_side(h, session), code);
	return 0;
}

/* ---- written ---- */

/* Its fields wait no more. */
static void forget_fields(struct h2 *h, enum side to, const nghttp2_frame *frame)
{
	size_t bytes = 0;

	if (frame->hd.type != NGHTTP2_HEADERS)
		return;
	for (size_t i = 0; i < frame->headers.nvlen; i++)
		bytes += frame->headers.nva[i].namelen + frame->headers.nva[i].valuelen;
	h->heads[to] -= MIN(bytes, h->heads[to]);
}

static int on_sends(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
	const struct h2 *h = data;
	struct h2_stream *s = h2_find(session, frame->hd.stream_id);

	if (s && frame->hd.type == NGHTTP2_HEADERS && session == h->session[SIDE_HOST])
		s->sent = true;
	return 0;
}

static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
	struct h2 *h = data;
	struct h2_stream *s = h2_find(session, frame->hd.stream_id);
	const enum side to = h2_side(h, session);
	const bool is_message = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;

	forget_fields(h, to, frame);
	if (!s || !is_message)
		return 0;
	if (to == SIDE_HOST || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	s->delivered = true;
	return 0;
}

static int on_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int err, void *data)
{
	(void)err;
	forget_fields(data, h2_side(data, session), frame);
	return 0;
}

/* Has a side write what it has. Return: was there something? */
static bool pump(struct h2 *h, enum side to)
{
	static uint8_t frames[2 * GATHER_MAX];
	struct channel *c = &h->p->side[to];
	bool any = false;
	size_t n = 0;

	while (!h->p->broken) {
		const uint8_t *bytes = NULL;
		const bool full = c->later.len + proxy_pending(h->p, to) + n >= PROXY_KEEPS;
		const ssize_t len = full ? 0 : nghttp2_session_mem_send(h->session[to], &bytes);

		c->full = full;
		if (n > 0 && (len <= 0 || n + (size_t)len > sizeof(frames))) {
			proxy_say(h->p, to, frames, n);
			n = 0;
		}
		if (len < 0)
			h->p->broken = true;
		if (len <= 0)
			break;
		any = true;
		if ((size_t)len > sizeof(frames)) {
			proxy_say(h->p, to, bytes, (size_t)len);
			continue;
		}
		memcpy(frames + n, bytes, (size_t)len);
		n += (size_t)len;
	}
	return any;
}

static bool is_over(const struct h2 *h, enum side s)
{
	return !nghttp2_session_want_read(h->session[s]) &&
	       !nghttp2_session_want_write(h->session[s]);
}

/* The server will say nothing more. */
static void lose_server(struct h2 *h, unsigned reason)
{
	struct h2_stream *s;

	if (h->gone)
		return;
	h->gone = true;
	TAILQ_FOREACH(s, &h->streams, link)
		h2_stream_orphan(s, reason);
	say_goodbye(h);
}

/* The guest's side is over, and everything was said to it. */
static void finish(struct h2 *h)
{
	struct h2_stream *s;

	h->over = true;
	TAILQ_FOREACH(s, &h->streams, link)
		s->id[SIDE_GUEST] = s->id[SIDE_HOST] = 0;
	if (!h->gone) {
		(void)nghttp2_session_terminate_session(h->session[SIDE_HOST], NGHTTP2_NO_ERROR);
		(void)pump(h, SIDE_HOST);
	}
	proxy_finish(h->p);
}

void h2_run(struct h2 *h)
{
	bool more = true;

	while (more && !h->over && !h->p->broken) {
		more = pump(h, SIDE_GUEST);
		if (!h->gone)
			more = pump(h, SIDE_HOST) || more;
		if (!more && !h->gone && is_over(h, SIDE_HOST)) {
			lose_server(h, NET_BAD_ANSWER);
			more = true;
		}
	}
	if (!h->over && !h->p->broken && is_over(h, SIDE_GUEST))
		finish(h);
	h2_sweep(h);
}

/* ---- taken ---- */

static nghttp2_session_callbacks *new_calls(void)
{
	nghttp2_session_callbacks *calls;

	if (nghttp2_session_callbacks_new(&calls) < 0)
		return NULL;
	nghttp2_session_callbacks_set_on_begin_headers_callback(calls, on_begin_fields);
	nghttp2_session_callbacks_set_on_header_callback(calls, on_field);
	nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
	nghttp2_session_callbacks_set_before_frame_send_callback(calls, on_sends);
	nghttp2_session_callbacks_set_on_frame_send_callback(calls, on_sent);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(calls, on_not_sent);
	return calls;
}

static nghttp2_option *new_options(void)
{
	nghttp2_option *o;

	if (nghttp2_option_new(&o) < 0)
		return NULL;
	nghttp2_option_set_no_auto_window_update(o, 1);
	nghttp2_option_set_max_outbound_ack(o, H2_QUEUE_MAX / 2);
	nghttp2_option_set_max_reserved_remote_streams(o, 0);
	nghttp2_option_set_peer_max_concurrent_streams(
		o, 1); /* until the server has said how many it takes */
	return o;
}

static int begin_sessions(struct h2 *h)
{
	static const nghttp2_settings_entry guest[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, H2_STREAMS_MAX},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEAD_MAX}};
	static const nghttp2_settings_entry host[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEAD_MAX}};
	nghttp2_session_callbacks *calls = new_calls();
	nghttp2_option *options = new_options();
	int r = calls && options ? 0 : -ENOMEM;

	if (r == 0 &&
	    (nghttp2_session_server_new2(&h->session[SIDE_GUEST], calls, h, options) < 0 ||
	     nghttp2_session_client_new2(&h->session[SIDE_HOST], calls, h, options) < 0))
		r = -ENOMEM;
	nghttp2_session_callbacks_del(calls);
	nghttp2_option_del(options);
	if (r < 0)
		return r;
	if (nghttp2_submit_settings(h->session[SIDE_GUEST], NGHTTP2_FLAG_NONE, guest,
				    ARRAY_SIZE(guest)) < 0 ||
	    nghttp2_submit_settings(h->session[SIDE_HOST], NGHTTP2_FLAG_NONE, host,
				    ARRAY_SIZE(host)) < 0)
		return -ENOMEM;
	for (int s = 0; s < 2; s++)
		if (nghttp2_session_set_local_window_size(h->session[s], NGHTTP2_FLAG_NONE, 0,
							  H2_WINDOW_GROWN) < 0)
			return -ENOMEM;
	return 0;
}

int h2_new(struct proxy *p, struct h2 **ret_h2)
{
	struct h2 *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return -ENOMEM;
	h->p = p;
	TAILQ_INIT(&h->streams);
	r = begin_sessions(h);
	if (r < 0) {
		h2_free(h);
		return r;
	}
	*ret_h2 = h;
	return 0;
}

void h2_free(struct h2 *h)
{
	struct h2_stream *s;

	if (!h)
		return;
	TAILQ_FOREACH(s, &h->streams, link)
		s->id[SIDE_GUEST] = s->id[SIDE_HOST] = 0;
	h2_sweep(h);
	nghttp2_session_del(h->session[SIDE_GUEST]);
	nghttp2_session_del(h->session[SIDE_HOST]);
	free(h);
}

size_t h2_take(struct h2 *h, enum side s, const void *bytes, size_t len)
{
	const bool deaf = h->over || (s == SIDE_HOST && h->gone);

	if (deaf || (nghttp2_session_mem_recv(h->session[s], bytes, len) >= 0 && !floods(h)))
		return len;
	if (s == SIDE_HOST)
		lose_server(h, NET_BAD_ANSWER);
	else
		h->p->broken = true;
	return len;
}

void h2_ended(struct h2 *h, enum side s, bool cut)
{
	(void)cut;
	if (h->over)
		return;
	if (s == SIDE_HOST)
		lose_server(h, NET_BAD_ANSWER);
	else
		h->p->broken = true;
}

void h2_unreachable(struct h2 *h)
{
	lose_server(h, h->p->failed);
}

void h2_recheck(struct h2 *h)
{
	struct h2_stream *s;

	TAILQ_FOREACH(s, &h->streams, link) {
		const unsigned reason = exchange_recheck(&s->x);

		if (reason != NET_OK)
			h2_stream_fail(s, reason);
	}
	proxy_go_on(h->p);
}
