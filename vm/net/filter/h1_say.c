/* SPDX-License-Identifier: Apache-2.0 */
/* What goes on to either side of an HTTP/1 connection. */
#include <errno.h>
#include <http_parser.h>
#include <stdio.h>
#include <string.h>

#include "h1_internal.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

void h1_say(struct h1 *h, enum side to, const void *bytes, size_t len)
{
	*(to == SIDE_GUEST ? &h->x.bytes_in : &h->x.bytes_out) += len;
	proxy_say(h->p, to, bytes, len);
}

void h1_say_text(struct h1 *h, enum side to, struct buf *text)
{
	if (text->failed)
		h->p->broken = true;
	else
		h1_say(h, to, text->data, text->len);
	buf_clear(text);
}

void h1_refuse(struct h1 *h)
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
	h1_say_text(h, SIDE_GUEST, &out);
	h->phase = H1_OVER;
	exchange_end(&h->x);
	proxy_finish(h->p);
}

void h1_fail(struct h1 *h, unsigned reason)
{
	exchange_fail(&h->x, reason);
	if (h->x.state == EXCHANGE_NONE) {
		h->p->broken = true;
		return;
	}
	h1_refuse(h);
}

void h1_unreachable(struct h1 *h)
{
	h->x.why = h->p->why;
	if (h->phase != H1_OVER && h->x.state == EXCHANGE_GOES)
		h1_fail(h, h->p->failed);
}

int h1_put_framing(struct head *head, const http_parser *parser, bool *ret_chunked)
{
	*ret_chunked = parser->flags & F_CHUNKED;
	return head_put_framing(head, *ret_chunked, parser->content_length);
}

void h1_pass(struct h1 *h, enum side from, const char *p, size_t len)
{
	char size[24];

	h->began[from] = true;
	if (h->chunked[from])
		h1_say(h, !from, size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", len));
	h1_say(h, !from, p, len);
	if (h->chunked[from])
		h1_say(h, !from, "\r\n", 2);
}

void h1_end_chunks(struct h1 *h, enum side from, struct head *trailer)
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
	h1_say_text(h, !from, &out);
}
