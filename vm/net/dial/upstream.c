/* SPDX-License-Identifier: Apache-2.0 */
#include "upstream.h"

#include <errno.h>
#include <stdio.h>

#include "vm/base/net_reason.h"
#include "vm/base/util.h"

size_t upstream_ask(const char *name, uint16_t port, char ret_text[static UPSTREAM_ASK_MAX])
{
	return (size_t)snprintf(ret_text, UPSTREAM_ASK_MAX,
				"CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\n\r\n", name, port, name,
				port);
}

/* Whatever it says of a body: a tunnel has none, and who refuses is not listened to. Interim answers are none. */
static int on_head(http_parser *parser)
{
	struct upstream *u = container_of(parser, struct upstream, parser);

	if (parser->status_code < 200 && parser->status_code != 101)
		return 0;
	u->status = parser->status_code;
	return 2;
}

void upstream_init(struct upstream *u)
{
	*u = (struct upstream){0};
	http_parser_init(&u->parser, HTTP_RESPONSE);
}

int upstream_hear(struct upstream *u, const char *bytes, size_t len, size_t *ret_used)
{
	static const http_parser_settings settings = {.on_headers_complete = on_head};

	*ret_used = http_parser_execute(&u->parser, &settings, bytes, len);
	u->heard += *ret_used;
	if (HTTP_PARSER_ERRNO(&u->parser) != HPE_OK)
		return -EPROTO;
	if (u->status)
		return 0;
	return u->heard > UPSTREAM_HEAD_MAX ? -EPROTO : -EAGAIN;
}

unsigned upstream_reason(unsigned status)
{
	if (status >= 200 && status < 300)
		return NET_OK;
	return status == 502 || status == 503 || status == 504 ? NET_UNREACHABLE : NET_UPSTREAM;
}
