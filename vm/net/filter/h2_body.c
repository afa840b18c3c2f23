/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2: bodies, from one side to the other, as much as that takes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "h2_internal.h"
#include "net.h"
#include "vm/base/util.h"

void h2_free_head(struct head **head)
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
int h2_body_keep(struct h2_stream *s, enum side from, const void *bytes, size_t len)
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

/*
 * What cleanse.c holds back for a time may be the beginning of a secret. It must not go on while more cannot come: the server may
 * have used up its window, and the guest decides when it gets more.
 */
static void note_blocked(struct h2_stream *s)
{
	const struct h2_half *half = &s->half[SIDE_HOST];

	s->cleanser.blocked = half->kept.len > half->at || s->h->owed[SIDE_HOST] > 0;
}

/* Nobody wants what comes, or will come, from this side. */
void h2_body_ignore(struct h2_stream *s, enum side from)
{
	struct h2_half *half = &s->half[from];

	half->ignored = true;
	if (from == SIDE_HOST)
		cleanser_fini(&s->cleanser);
	take(s, from, half->kept.len - half->at);
	h2_free_head(&half->head);
	h2_free_head(&half->trailer);
}

void h2_body_wake(struct h2_stream *s, enum side to)
{
	struct h2_half *half = &s->half[!to];

	if (!half->waits || !s->id[to])
		return;
	half->waits = false;
	(void)nghttp2_session_resume_data(s->h->session[to], s->id[to]);
}

int h2_body_read(struct h2_stream *s, enum side from, const void *bytes, size_t len)
{
	struct h2_half *half = &s->half[from];
	struct h2 *h = s->h;

	*(from == SIDE_GUEST ? &s->x.bytes_out : &s->x.bytes_in) += len;
	if (half->ignored) {
		(void)nghttp2_session_consume(h->session[from], s->id[from], len);
		half->passed += len;
		return 0;
	}
	if (from == SIDE_HOST)
		cleanser_feed(&s->cleanser, bytes, len);
	else if (h2_body_keep(s, from, bytes, len) < 0)
		return -ENOMEM;
	make_room(h, from, len);
	note_blocked(s);
	h2_body_wake(s, !from);
	return 0;
}

/* A part of the answer in which there is no secret. */
void h2_body_clean(void *data, const void *bytes, size_t len)
{
	struct h2_stream *s = data;

	if (h2_body_keep(s, SIDE_HOST, bytes, len) < 0)
		s->h->p->broken = true;
	note_blocked(s);
	h2_body_wake(s, SIDE_GUEST);
	proxy_go_on(s->h->p); /* it may have been time alone */
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
	struct h2_fields fields = {.n = 0};

	if (to == SIDE_GUEST)
		(void)cleanse_head(s->h->p, &s->x, half->trailer, true);
	if (to == SIDE_GUEST ||
	    !*s->x.secret) /* what the guest says could go where a secret has gone */
		h2_head_trailer(half->trailer, &fields);
	if (fields.n > 0 &&
	    nghttp2_submit_trailer(s->h->session[to], s->id[to], fields.nv, fields.n) == 0) {
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		s->h->heads[to] += fields.bytes;
	}
	h2_free_head(&half->trailer);
}

static ssize_t give(struct h2_stream *s, enum side to, uint8_t *bytes, size_t size, uint32_t *flags)
{
	struct h2_half *half = &s->half[!to];
	const size_t n = MIN(size, half->kept.len - half->at);

	if (n > 0) {
		memcpy(bytes, half->kept.data + half->at, n);
		half->passed += n;
		take(s, !to, n);
		note_blocked(s);
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

enum side h2_side(const struct h2 *h, const nghttp2_session *session)
{
	return session == h->session[SIDE_GUEST] ? SIDE_GUEST : SIDE_HOST;
}

struct h2_stream *h2_find(nghttp2_session *session, int32_t id)
{
	return id > 0 ? nghttp2_session_get_stream_user_data(session, id) : NULL;
}

ssize_t h2_body_data(nghttp2_session *session, int32_t id, uint8_t *bytes, size_t size,
		     uint32_t *flags, nghttp2_data_source *source, void *data)
{
	struct h2_stream *s = h2_find(session, id);

	(void)source;
	return s ? give(s, h2_side(data, session), bytes, size, flags)
		 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}
