/* SPDX-License-Identifier: Apache-2.0 */
/* Checks what a connection may send, depending on its port. */
#include "guard.h"

#include <errno.h>

#define TLS_HANDSHAKE 22

struct guard guard_for(uint16_t port)
{
	return (struct guard){.kind = port == 443  ? GUARD_TLS
				      : port == 80 ? GUARD_HTTP
						   : GUARD_SNIFF};
}

/* Return: how many bytes may pass before it is known what they are. */
static int sniff(struct guard *g, const uint8_t *data, size_t len)
{
	size_t pass = 0;

	if (data[0] == TLS_HANDSHAKE && !g->http.begun) {
		g->kind = GUARD_TLS;
		return 0;
	}
	switch (http_sniff(&g->http, data, len, &pass)) {
	case HTTP_SPOKEN: g->kind = GUARD_HTTP; break;
	case HTTP_NOT_SPOKEN: g->kind = GUARD_OPEN; break;
	case HTTP_UNDECIDED: break;
	}
	return (int)pass;
}

int guard_check(struct guard *g, const uint8_t *data, size_t len, const char *name,
		unsigned *ret_reason)
{
	int n;

	if (g->kind == GUARD_SNIFF) {
		n = sniff(g, data, len);
		if (g->kind == GUARD_SNIFF)
			return n;
	}
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
