/* SPDX-License-Identifier: Apache-2.0 */
/* An HTTP/1 connection's state, for its parts: h1.c has its life, the others are named below, with what each has. */
#ifndef XSBX_VM_NET_FILTER_H1_INTERNAL_H
#define XSBX_VM_NET_FILTER_H1_INTERNAL_H

#include <http_parser.h>
#include <stdbool.h>
#include <stddef.h>

#include "exchange.h"
#include "cleanse.h"
#include "h1.h"
#include "head.h"
#include "proxy.h"
#include "vm/base/buf.h"

enum h1_phase { H1_HEAD, H1_WAITS, H1_BODY, H1_ANSWER, H1_OVER };

struct h1 {
	struct proxy *p;
	enum head_lines head_lines;
	enum h1_phase phase;
	http_parser request, answer;
	struct head head, reply;
	struct exchange x;
	bool websocket;	 /* the request asks for a switch to that */
	bool chunked[2]; /* is what this side says passed on in chunks? */
	bool keeps[2];	 /* may there be another message behind this one? */
	bool began[2];	 /* some of the body is there: what comes as fields is its trailer */
	bool answering;	 /* a part of the answer has come */
	bool answered;	 /* all of it has */
	bool gathers;	 /* the request waits for its body, in which placeholders are looked for */
	struct buf body;
	struct cleanser cleanser; /* of the answer's body */
	unsigned bad;		  /* enum net_reason: what is wrong with what is read */
};

/* ---- h1_say.c: what goes on to either side ---- */

void h1_say(struct h1 *h, enum side to, const void *bytes, size_t len);
/* @text is cleared. */
void h1_say_text(struct h1 *h, enum side to, struct buf *text);

/* An answer of our own, and the end. */
void h1_refuse(struct h1 *h);
/* ... because of @reason, an enum net_reason. */
void h1_fail(struct h1 *h, unsigned reason);

/* How the body of what @parser has read will be told from what follows. Return: as head_put_framing(). */
int h1_put_framing(struct head *head, const http_parser *parser, bool *ret_chunked);
/* A part of the body goes to the other side. */
void h1_pass(struct h1 *h, enum side from, const char *p, size_t len);
/* The end of what is in chunks, and the fields behind it. */
void h1_end_chunks(struct h1 *h, enum side from, struct head *trailer);

/* ---- h1_request.c: a request is read, judged, and goes on ---- */

extern const http_parser_settings h1_request_calls;

/* Callback `answered` of the exchange: it is known whether it may go on. */
void h1_on_asked(struct exchange *x);

/* ---- h1_answer.c: an answer is read, cleansed of secrets, and goes on ---- */

extern const http_parser_settings h1_answer_calls;

/* The next one will be read from its start. */
void h1_expect_answer(struct h1 *h);

/* Callback of the cleanser: a part of the body, as it may be passed on. */
void h1_pass_answer(void *data, const void *bytes, size_t len);

#endif
