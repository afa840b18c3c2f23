/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1: a request is read, judged, and goes on. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "dress.h"
#include "h1_internal.h"
#include "net.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

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
	h1_say_text(h, SIDE_HOST, &out);
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
	h1_say(h, SIDE_GUEST, go, strlen(go));
}

/* ... and is here. */
static void send_gathered(struct h1 *h)
{
	const unsigned reason = dress_body(&h->x, head_value(&h->head, "Content-Type"), &h->body);
	char length[24];

	h->gathers = false;
	if (reason != NET_OK) {
		h1_fail(h, reason);
		return;
	}
	snprintf(length, sizeof(length), "%zu", h->body.len);
	head_remove(&h->head, "Content-Length");
	if (head_add(&h->head, "Content-Length", length) < 0) {
		h1_fail(h, NET_NOT_HTTP);
		return;
	}
	send_head(h);
	h1_say_text(h, SIDE_HOST, &h->body);
}

/* The request goes on. */
static void send_request(struct h1 *h)
{
	bool in_body;
	const unsigned reason = dress_request(&h->x, &h->head, &h->p->sent, &in_body);

	if (reason != NET_OK) {
		h1_fail(h, reason);
		return;
	}
	h->phase = H1_BODY;
	if (h1_put_framing(&h->head, &h->request, &h->chunked[SIDE_GUEST]) < 0 ||
	    head_put_connection(&h->head, h->websocket, h->keeps[SIDE_GUEST],
				h->request.http_minor == 0) < 0) {
		h1_fail(h, NET_NOT_HTTP); /* it has more fields than one of ours would fit behind */
		return;
	}
	if (in_body && !h->chunked[SIDE_GUEST] && h->request.content_length > 0 &&
	    h->request.content_length <= DRESS_BODY_MAX)
		gather(h);
	else
		send_head(h);
}

void h1_on_asked(struct exchange *x)
{
	struct h1 *h = container_of(x, struct h1, x);

	if (x->state == EXCHANGE_GOES)
		send_request(h);
	else
		h1_refuse(h);
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
		h1_refuse(h);
	return 0;
}

static int on_body(http_parser *parser, const char *p, size_t len)
{
	struct h1 *h = parser->data;

	if (h->gathers)
		return buf_append(&h->body, p, len);
	h1_pass(h, SIDE_GUEST, p, len);
	return 0;
}

static int on_end(http_parser *parser)
{
	struct h1 *h = parser->data;

	if (h->gathers)
		send_gathered(h);
	if (h->chunked[SIDE_GUEST])
		h1_end_chunks(h, SIDE_GUEST, &h->head);
	if (h->phase != H1_OVER)
		h->phase = H1_ANSWER;
	http_parser_pause(parser, 1); /* what follows waits */
	return 0;
}

const http_parser_settings h1_request_calls = {
	.on_message_begin = on_begin,
	.on_url = on_url,
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_headers_complete = on_head,
	.on_body = on_body,
	.on_message_complete = on_end,
};
