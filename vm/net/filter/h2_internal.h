/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2: what its files share. */
#ifndef XSBX_VM_NET_FILTER_H2_INTERNAL_H
#define XSBX_VM_NET_FILTER_H2_INTERNAL_H

#include <nghttp2/nghttp2.h>
#include <sys/queue.h>

#include "head.h"
#include "proxy.h"

#define H2_STREAMS_MAX	64     /* that the guest may have open */
#define H2_LINGER_MAX	128    /* those included of which the server has not read everything yet */
#define H2_WINDOW	65535  /* bytes of a stream that may be on their way */
#define H2_WINDOW_GROWN 524288 /* ... where those who read keep up; and of a connection */
#define H2_KEEPS \
	4194304 /* bytes of all streams of a side that wait for the other, before it may send no more */
#define H2_KEEPS_ALL \
	16777216 /* ... of all connections, before each of them may have no more than a stream's */
#define H2_HEADS_MAX   1048576 /* bytes of heads that wait to be sent, before it ends */
#define H2_QUEUE_MAX   1000    /* frames, likewise */
#define H2_RESETS_MAX  200 /* streams that a client gives up without an answer, in so many seconds */
#define H2_RESETS_S    10
#define H2_INTERIM_MAX 8 /* answers before the answer */

/* What stands before the fields; the path is the head's `first`. */
struct h2_first {
	char method[NET_METHOD_MAX], scheme[8], authority[ALLOW_NAME_MAX + 8];
	bool has_authority;
	unsigned status;
};

/*
 * What comes from one side of a stream, and goes to the other.
 *
 * - `head` and `trailer` are there from their first field until they have gone on.
 */
struct h2_half {
	struct head *head, *trailer;
	struct buf kept; /* of the body, from `at` on */
	size_t at;
	uint64_t passed;
	bool begun;   /* its head is complete: what comes as fields is its trailer */
	bool ended;   /* nothing more will come */
	bool waits;   /* the library asks for more when it is told that there is some */
	bool grown;   /* its window is the large one */
	bool ignored; /* nobody wants it any more */
};

/*
 * A request and its answer.
 *
 * - `id` is its number on both sides; 0 where it is not open (any more). One with neither is freed by h2_sweep(), and by nothing
 *   else: whoever has one in his hands may use it until he returns to h2.c.
 */
struct h2_stream {
	TAILQ_ENTRY(h2_stream) link;
	struct h2 *h;
	int32_t id[2];
	struct h2_first first;
	struct h2_half half[2]; /* by the side that it comes from */
	struct exchange x;
	struct cleanser cleanser; /* of the answer's body */
	unsigned interim;
	bool gathers;	/* its head waits for its body, in which placeholders are looked for */
	bool bad;	/* what is read of it is no HTTP */
	bool sent;	/* the server has heard of it */
	bool reset;	/* the server has ended it */
	bool answering; /* its answer has gone on, or is ours */
	bool delivered; /* all of that was sent */
};

struct h2 {
	struct proxy *p;
	nghttp2_session *session[2];
	TAILQ_HEAD(, h2_stream) streams;
	unsigned nstreams;
	size_t kept[2];	 /* bytes of bodies, by the side that they come from */
	size_t owed[2];	 /* ... for which it gets no room yet */
	size_t heads[2]; /* bytes of heads that wait, by the side that they go to */
	unsigned resets;
	time_t resets_since;
	bool gone;    /* the server has */
	bool goodbye; /* the guest was told that this connection takes no more requests */
	bool over;
};

/* ---- h2_head.c: fields, as the library has them and as a head has them ---- */

struct h2_fields {
	nghttp2_nv nv[HEAD_FIELDS_MAX + 4];
	size_t n, bytes;
};

/* Adds what the library has read. Return: 0, -E2BIG, -EINVAL, -ENOMEM. */
int h2_head_read(struct h2_first *first, struct head *head, const uint8_t *name, size_t name_len,
		 const uint8_t *value, size_t value_len);

/* What is to be sent, for as long as @first and @head are there: a request, an answer, a trailer.
 * @secret: no table of the connection is to remember any of it. */
void h2_head_request(const struct h2_first *first, struct head *head, bool secret,
		     struct h2_fields *ret);
void h2_head_answer(const char *status, struct head *head, struct h2_fields *ret);
void h2_head_trailer(struct head *head, struct h2_fields *ret);

void h2_fields_add(struct h2_fields *f, const char *name, const char *value);

/* ---- h2_body.c ---- */

void h2_free_head(struct head **head);

/* Some of a body has come; and what of an answer's has no secret in it. Return: 0 or -ENOMEM. */
int h2_body_read(struct h2_stream *s, enum side from, const void *bytes, size_t len);
void h2_body_clean(void *data, const void *bytes, size_t len);

/* Keeps some for the other side, as it is. Return: 0 or -ENOMEM. */
int h2_body_keep(struct h2_stream *s, enum side from, const void *bytes, size_t len);

/* The other side has to be told that there is more, or the end. */
void h2_body_wake(struct h2_stream *s, enum side to);

/* Nobody wants what has come, or will come, from this side. */
void h2_body_ignore(struct h2_stream *s, enum side from);

/* The library asks for what is to be sent. */
ssize_t h2_body_data(nghttp2_session *session, int32_t id, uint8_t *bytes, size_t size,
		     uint32_t *flags, nghttp2_data_source *source, void *data);

/* Which one of a connection's is @session? And which stream of ours does it know by @id, if any? */
enum side h2_side(const struct h2 *h, const nghttp2_session *session);
struct h2_stream *h2_find(nghttp2_session *session, int32_t id);

/* ---- h2_stream.c ---- */

/* Return: NULL if out of memory. */
struct h2_stream *h2_stream_new(struct h2 *h, int32_t id);
void h2_sweep(struct h2 *h);

/* All of a side's fields have come: a head, or a trailer. */
void h2_stream_head(struct h2_stream *s, enum side from);

/* Nothing more comes from a side. */
void h2_stream_end(struct h2_stream *s, enum side from);

/* A side has closed it, or the library has for what that did. */
void h2_stream_closed(struct h2_stream *s, enum side by, uint32_t code);

/* It is closed on one side, which need not tell of it any more. */
void h2_stream_leave(struct h2_stream *s, enum side from, uint32_t code);

/* It went wrong, or is refused: an answer of ours, or its end if there is one already. */
void h2_stream_fail(struct h2_stream *s, unsigned reason);

/* The server will answer nothing more. */
void h2_stream_orphan(struct h2_stream *s, unsigned reason);

#endif
