/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1: an answer is read, cleansed of secrets, and goes on. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "h1_internal.h"
#include "vm/base/net_reason.h"

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
	    h1_put_framing(&h->reply, parser, &h->chunked[SIDE_HOST]) < 0)
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
	h1_say_text(h, SIDE_GUEST, &out);
	return bare ? 1 : 0;
}

void h1_pass_answer(void *data, const void *bytes, size_t len)
{
	h1_pass(data, SIDE_HOST, bytes, len);
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
		h1_end_chunks(h, SIDE_HOST, &h->reply);
	h->answered = !is_interim(parser);
	http_parser_pause(parser, 1);
	return 0;
}

const http_parser_settings h1_answer_calls = {
	.on_message_begin = on_reply_begin,
	.on_status = on_reply_reason,
	.on_header_field = on_reply_name,
	.on_header_value = on_reply_value,
	.on_headers_complete = on_reply_head,
	.on_body = on_reply_body,
	.on_message_complete = on_reply_end,
};

void h1_expect_answer(struct h1 *h)
{
	http_parser_init(&h->answer, HTTP_RESPONSE);
	h->answer.data = h;
}
