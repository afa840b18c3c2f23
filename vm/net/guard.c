/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection may say, by the port it goes to. */
#include "guard.h"

#include <errno.h>

#define TLS_HANDSHAKE 22

struct guard guard_for(uint16_t port)
{
	return (struct guard){.kind = port == 443  ? GUARD_TLS
				      : port == 80 ? GUARD_HTTP
						   : GUARD_SNIFF};
}

/* Return: false if more bytes are needed to tell. */
static bool sniff(struct guard *g, const uint8_t *data, size_t len)
{
	const int http = http_looks_like(data, len);

	if (http == -EAGAIN)
		return false;
	g->kind = data[0] == TLS_HANDSHAKE ? GUARD_TLS : http ? GUARD_HTTP : GUARD_OPEN;
	return true;
}

int guard_check(struct guard *g, const uint8_t *data, size_t len, const char *name,
		unsigned *ret_reason)
{
	int n;

	if (g->kind == GUARD_SNIFF && !sniff(g, data, len))
		return 0;
	switch (g->kind) {
	case GUARD_TLS:
		n = hello_check(&g->hello, data, len, name, ret_reason);
		if (g->hello.done)
			g->kind = GUARD_OPEN;
		return n;
	case GUARD_HTTP: return http_check(&g->http, data, len, name, ret_reason);
	case GUARD_SNIFF:
	case GUARD_OPEN: break;
	}
	return (int)len;
}
