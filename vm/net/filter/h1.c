/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1: requests and answers of one connection, one after the other. */
#include "h1.h"

#include <errno.h>
#include <http_parser.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "dress.h"
#include "head.h"
#include "net.h"
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

/* ---- said ---- */

static void say(struct h1 *h, enum side to, const void *bytes, size_t len)
{
	*(to == SIDE_GUEST ? &h->x.bytes_in : &h->x.bytes_out) += len;
	proxy_say(h->p, to, bytes, len);
}

static void say_text(struct h1 *h, enum side to, struct buf *text)
{
	if (text->failed)
		h->p->broken = true;
	else
		say(h, to, text->data, text->len);
	buf_clear(text);
}

/* An answer of our own, and the end. */
static void refuse(struct h1 *h)
{
	struct buf out = {0};
	char text[1400];
	const unsigned status = exchange_explain(&h->x, text, sizeof(text));
	const bool bare = !strcmp(h->x.method, "HEAD");

	if (h->answering) { /* it is too late for another one */
		h->phase = H1_OVER;
		exchange_end(&h->x);
		proxy_cut(h->p);
		return;
	}
	buf_printf(&out,
		   "HTTP/1.1 %u %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: "
		   "%zu\r\n"
		   "X-Xsbxfs: %s\r\nConnection: close\r\n\r\n%s",
		   status, http_status_str((enum http_status)status), strlen(text),
		   net_reason_str(h->x.reason), bare ? "" : text);
	h->x.status = status;
	say_text(h, SIDE_GUEST, &out);
	h->phase = H1_OVER;
	exchange_end(&h->x);
	proxy_finish(h->p);
}

static void fail(struct h1 *h, unsigned reason)
{
	exchange_fail(&h->x, reason);
	if (h->x.state == EXCHANGE_NONE) {
		h->p->broken = true;
		return;
	}
	refuse(h);
}

static int put_framing(struct head *head, const http_parser *parser, bool *ret_chunked)
{
	*ret_chunked = parser->flags & F_CHUNKED;
	return head_put_framing(head, *ret_chunked, parser->content_length);
}

/* ---- requests ---- */

static void send_head(struct h1 *h)
{
	struct buf out = {0};
	const char *target = buf_str(&h->head.first);

	buf_printf(&out, "%s %s HTTP/1.%u\r\n",
		   http_method_str((enum http_method)h->request.method), target ? target : "",
		   h->request.http_minor);
	if (head_print(&h->head, &out) < 0 || !target)
		out.failed = -ENOMEM;
	head_clear(&h->head);
	proxy_dial(h->p);
	say_text(h, SIDE_HOST, &out);
	if (h->p->failed != NET_OK)
		h1_unreachable(h);
}

/* Its head waits for its body, as long as that may grow or shrink. */
static void gather(struct h1 *h)
{
	static const char go[] = "HTTP/1.1 100 Continue\r\n\r\n";

	h->gathers = true;
	if (!head_has_token(&h->head, "Expect", "100-continue"))
		return;
	head_remove(&h->head, "Expect");
	say(h, SIDE_GUEST, go, strlen(go));
}

/* ... and is here. */
static void send_gathered(struct h1 *h)
{
	const unsigned reason = dress_body(&h->x, head_value(&h->head, "Content-Type"), &h->body);
	char length[24];

	h->gathers = false;
	if (reason != NET_OK) {
		fail(h, reason);
		return;
	}
	snprintf(length, sizeof(length), "%zu", h->body.len);
	head_remove(&h->head, "Content-Length");
	if (head_add(&h->head, "Content-Length", length) < 0) {
		fail(h, NET_NOT_HTTP);
		return;
	}
	send_head(h);
	say_text(h, SIDE_HOST, &h->body);
}

/* The request goes on. */
static void send_request(struct h1 *h)
{
	bool in_body;
	const unsigned reason = dress_request(&h->x, &h->head, &h->p->sent, &in_body);

	if (reason != NET_OK) {
		fail(h, reason);
		return;
	}
	h->phase = H1_BODY;
	if (put_framing(&h->head, &h->request, &h->chunked[SIDE_GUEST]) < 0 ||
	    head_put_connection(&h->head, h->websocket, h->keeps[SIDE_GUEST],
				h->request.http_minor == 0) < 0) {
		fail(h, NET_NOT_HTTP); /* it has more fields than one of ours would fit behind */
		return;
	}
	if (in_body && !h->chunked[SIDE_GUEST] && h->request.content_length > 0 &&
	    h->request.content_length <= DRESS_BODY_MAX)
		gather(h);
	else
		send_head(h);
}

static void on_answered(struct exchange *x)
{
	struct h1 *h = container_of(x, struct h1, x);

	if (x->state == EXCHANGE_GOES)
		send_request(h);
	else
		refuse(h);
	proxy_go_on(h->p);
}

/*
 * "http://example.com/path" -> "/path". Its host has to be the one that is meant, as that of the field Host. Return: the target in
 * origin form, or NULL; *@ret_host is unchanged if it has none.
 */
static const char *origin_form(const char *target, char *host, size_t size, const char **ret_host)
{
	const char *slash;

	if (target[0] == '/' || !strcmp(target, "*"))
		return target;
	if (strncasecmp(target, "http://", 7) != 0)
		return NULL;
	target += 7;
	slash = target + strcspn(target, "/?#");
	if ((size_t)(slash - target) >= size || *slash == '?' || *slash == '#')
		return NULL;
	memcpy(host, target, (size_t)(slash - target));
	host[slash - target] = '\0';
	*ret_host = host;
	return *slash ? slash : "/";
}

static int set_target(struct h1 *h, const char *target)
{
	struct buf copy = {0};

	if (buf_append(&copy, target, strlen(target)) < 0)
		return -ENOMEM;
	buf_clear(&h->head.first);
	h->head.first = copy;
	return 0;
}

static void begin(struct h1 *h)
{
	const char *const method = http_method_str((enum http_method)h->request.method);
	const char *const version = h->request.http_minor ? "1.1" : "1.0";
	const char *host = head_value(&h->head, "Host"), *named = host,
		   *target = buf_str(&h->head.first), *asked = target ? target : "?";
	char absolute[ALLOW_NAME_MAX + 8];

	target = target ? origin_form(target, absolute, sizeof(absolute), &named) : NULL;
	if (named == host && exchange_takes_any_host(h->p->net, &h->p->to))
		named = host = h->p->to.host;
	if (named != host && host && strcasecmp(named, host) != 0)
		named = "?"; /* two names */
	if (target && target != h->head.first.data && set_target(h, target) < 0)
		target = NULL;
	exchange_begin(&h->x, h->p->net, &h->p->to, version, method,
		       target ? buf_str(&h->head.first) : asked, host ? named : NULL, h->websocket);
}

static int on_begin(http_parser *parser)
{
	struct h1 *h = parser->data;

	head_clear(&h->head);
	h->began[SIDE_GUEST] = false;
	return 0;
}

static int on_url(http_parser *parser, const char *p, size_t len)
{
	struct h1 *h = parser->data;

	return head_add_first(&h->head, p, len);
}

static int on_name(http_parser *parser, const char *p, size_t len)
{
	struct h1 *h = parser->data;

	return head_add_name(&h->head, p, len);
}

static int on_value(http_parser *parser, const char *p, size_t len)
{
	struct h1 *h = parser->data;

	return head_add_value(&h->head, p, len);
}

/* What no client sends that means well, and servers read in different ways. */
static bool is_odd(const struct h1 *h)
{
	const http_parser *r = &h->request;

	return r->http_major != 1 || r->http_minor > 1 ||
	       ((r->flags & F_CHUNKED) && r->http_minor == 0) ||
	       head_find(&h->head, "Content_Length", 0) >= 0 ||
	       head_find(&h->head, "Transfer_Encoding", 0) >= 0 || head_is_framed_oddly(&h->head);
}

static int on_head(http_parser *parser)
{
	struct h1 *h = parser->data;

	head_end(&h->head);
	if (is_odd(h)) {
		h->bad = NET_NOT_HTTP;
		return -1;
	}
	/* Whatever else has these fields asks for what its method says. */
	h->websocket = parser->upgrade && parser->method == HTTP_GET &&
		       head_has_token(&h->head, "Upgrade", "websocket");
	h->keeps[SIDE_GUEST] = http_should_keep_alive(parser);
	begin(h);
	/* A switch to another protocol is never made: the server does not hear of it. */
	parser->upgrade = h->websocket;
	if (h->x.state == EXCHANGE_GOES) {
		send_request(h);
		if (h->phase == H1_OVER)
			http_parser_pause(parser, 1);
		return 0;
	}
	h->phase = H1_WAITS;
	http_parser_pause(parser, 1);
	if (h->x.state == EXCHANGE_REFUSED)
		refuse(h);
	return 0;
}

static void pass(struct h1 *h, enum side from, const char *p, size_t len)
{
	char size[24];

	h->began[from] = true;
	if (h->chunked[from])
		say(h, !from, size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", len));
	say(h, !from, p, len);
	if (h->chunked[from])
		say(h, !from, "\r\n", 2);
}

static int on_body(http_parser *parser, const char *p, size_t len)
{
	struct h1 *h = parser->data;

	if (h->gathers)
		return buf_append(&h->body, p, len);
	pass(h, SIDE_GUEST, p, len);
	return 0;
}

/* The end of what is in chunks, and the fields behind it. */
static void end_chunks(struct h1 *h, enum side from, struct head *trailer)
{
	static const char *const not [] = {"Host",	 "Content-Length", "Transfer-Encoding",
					   "Connection", "Authorization",  "Cookie",
					   "Set-Cookie"};
	struct buf out = {0};

	for (size_t i = 0; i < ARRAY_SIZE(not ); i++)
		head_remove(trailer, not [i]);
	if (from == SIDE_GUEST && *h->x.secret) /* it could go where a secret has gone */
		head_clear(trailer);
	buf_append(&out, "0\r\n", 3);
	if (head_print(trailer, &out) < 0)
		out.failed = -ENOMEM;
	head_clear(trailer);
	say_text(h, !from, &out);
}

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

static int on_end(http_parser *parser)
{
	struct h1 *h = parser->data;

	if (h->gathers)
		send_gathered(h);
	if (h->chunked[SIDE_GUEST])
		end_chunks(h, SIDE_GUEST, &h->head);
	if (h->phase != H1_OVER)
		h->phase = H1_ANSWER;
	http_parser_pause(parser, 1); /* what follows waits */
	return 0;
}

static const http_parser_settings request_calls = {
	.on_message_begin = on_begin,
	.on_url = on_url,
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_headers_complete = on_head,
	.on_body = on_body,
	.on_message_complete = on_end,
};

/* ---- answers ---- */

static int on_reply_begin(http_parser *parser)
{
	struct h1 *h = parser->data;

	head_clear(&h->reply);
	h->began[SIDE_HOST] = false;
	return 0;
}

static int on_reply_reason(http_parser *parser, const char *p, size_t len)
{
	struct h1 *h = parser->data;

	return head_add_first(&h->reply, p, len);
}

static int on_reply_name(http_parser *parser, const char *p, size_t len)
{
	struct h1 *h = parser->data;

	return head_add_name(&h->reply, p, len);
}

static int on_reply_value(http_parser *parser, const char *p, size_t len)
{
	struct h1 *h = parser->data;

	return head_add_value(&h->reply, p, len);
}

static bool is_interim(const http_parser *answer)
{
	return answer->status_code / 100 == 1 && answer->status_code != 101;
}

static bool is_switched(const struct h1 *h)
{
	const char *to = head_value(&h->reply, "Upgrade");

	return h->websocket && to && !strcasecmp(to, "websocket");
}

static int on_reply_head(http_parser *parser)
{
	struct h1 *h = parser->data;
	const bool switches = parser->status_code == 101, bare = !strcmp(h->x.method, "HEAD");
	const char *reason;
	struct buf out = {0};

	head_end(&h->reply);
	if (parser->http_major != 1 || (switches && !is_switched(h)) ||
	    head_is_framed_oddly(&h->reply))
		return -1;
	if (h->websocket && parser->status_code / 100 == 2)
		h->bad = exchange_judge_as(&h->x, "GET"); /* which it was to the server */
	if (h->bad == NET_OK)
		h->bad = cleanse_head(h->p, &h->x, &h->reply, false);
	h->cleanser.streams = cleanse_streams(&h->reply);
	if (h->bad != NET_OK)
		return -1;
	h->keeps[SIDE_HOST] = http_should_keep_alive(parser);
	h->chunked[SIDE_HOST] = false;
	/* Without a body, these fields tell of the one that would be there. */
	if (!bare && parser->status_code != 304 && parser->status_code != 204 &&
	    !is_interim(parser) && !switches &&
	    put_framing(&h->reply, parser, &h->chunked[SIDE_HOST]) < 0)
		return -1;
	if (!is_interim(parser) &&
	    head_put_connection(&h->reply, switches, h->keeps[SIDE_HOST] && h->keeps[SIDE_GUEST],
				h->request.http_minor == 0) < 0)
		return -1;
	h->answering = !is_interim(parser); /* behind one of those there is still an answer */
	h->x.status = parser->status_code;
	reason = buf_str(&h->reply.first);
	buf_printf(&out, "HTTP/1.%u %u %s\r\n", parser->http_minor ? 1 : 0, parser->status_code,
		   reason ? reason : "");
	if (head_print(&h->reply, &out) < 0)
		out.failed = -ENOMEM;
	head_clear(&h->reply);
	say_text(h, SIDE_GUEST, &out);
	return bare ? 1 : 0;
}

static void pass_answer(void *data, const void *bytes, size_t len)
{
	pass(data, SIDE_HOST, bytes, len);
}

static int on_reply_body(http_parser *parser, const char *p, size_t len)
{
	cleanser_feed(&((struct h1 *)parser->data)->cleanser, p, len);
	return 0;
}

static int on_reply_end(http_parser *parser)
{
	struct h1 *h = parser->data;

	cleanser_finish(&h->cleanser);
	(void)cleanse_head(h->p, &h->x, &h->reply, true);
	if (h->chunked[SIDE_HOST])
		end_chunks(h, SIDE_HOST, &h->reply);
	h->answered = !is_interim(parser);
	http_parser_pause(parser, 1);
	return 0;
}

static const http_parser_settings answer_calls = {
	.on_message_begin = on_reply_begin,
	.on_status = on_reply_reason,
	.on_header_field = on_reply_name,
	.on_header_value = on_reply_value,
	.on_headers_complete = on_reply_head,
	.on_body = on_reply_body,
	.on_message_complete = on_reply_end,
};

/* ---- taken ---- */

static void expect_answer(struct h1 *h)
{
	http_parser_init(&h->answer, HTTP_RESPONSE);
	h->answer.data = h;
}

int h1_new(struct proxy *p, struct h1 **ret_h1)
{
	struct h1 *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->p = p;
	h->x.answered = on_answered;
	cleanser_init(&h->cleanser, p, pass_answer, h);
	http_parser_init(&h->request, HTTP_REQUEST);
	h->request.data = h;
	expect_answer(h);
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
	refuse(h);
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
	n = http_parser_execute(&h->request, &request_calls, bytes, len);
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
	n = http_parser_execute(&h->answer, &answer_calls, bytes, len);
	err = HTTP_PARSER_ERRNO(&h->answer);
	if (err != HPE_OK && err != HPE_PAUSED) {
		fail(h, h->bad ? h->bad : NET_BAD_ANSWER);
		return len;
	}
	if (err == HPE_PAUSED && h->answer.status_code == 101 && h->websocket) {
		h->phase = H1_OVER;
		proxy_make_tunnel(h->p, &h->x);
		return n;
	}
	if (err == HPE_PAUSED)
		expect_answer(h);
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
			fail(h, NET_HUNG_UP);
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
	    http_parser_execute(&h->answer, &answer_calls, "", 0) == 0 && h->answered) {
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
	fail(h, NET_BAD_ANSWER);
}

void h1_unreachable(struct h1 *h)
{
	h->x.why = h->p->why;
	if (h->phase != H1_OVER && h->x.state == EXCHANGE_GOES)
		fail(h, h->p->failed);
}

void h1_recheck(struct h1 *h)
{
	const unsigned reason = exchange_recheck(&h->x);

	if (reason != NET_OK)
		fail(h, reason);
}
