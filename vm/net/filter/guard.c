/* SPDX-License-Identifier: Apache-2.0 */
/* Checks what a connection may send, depending on its port. */
#include "guard.h"

#include <errno.h>

#include "vm/base/net_reason.h"

#define TLS_HANDSHAKE 22

struct guard guard_for(uint16_t port, enum guard_duty duty)
{
	const bool looks = duty == GUARD_REQUESTS || duty == GUARD_REQUESTS_HELD;

	return (struct guard){
		.only = duty == GUARD_REQUESTS_HELD && (port == 80 || port == 443) ? port : 0,
		.kind = looks			? GUARD_LOOK
			: duty == GUARD_PROXIES ? GUARD_NO_PROXY
			: port == 443		? GUARD_TLS
			: port == 80		? GUARD_PROXY
						: GUARD_SNIFF};
}

/* Return: how many bytes may pass before it is known what they are; -EACCES: HTTP of which a part has passed. */
static int sniff(struct guard *g, const uint8_t *data, size_t len)
{
	size_t pass = 0;

	if (data[0] == TLS_HANDSHAKE && !g->sniff.begun) {
		g->kind = g->kind == GUARD_SNIFF ? GUARD_TLS : GUARD_OPEN;
		return 0;
	}
	switch (sniff_http(&g->sniff, data, len, &pass)) {
	case SNIFF_HTTP: g->kind = GUARD_PROXY; return g->sniff.begun ? -EACCES : 0;
	case SNIFF_OTHER: g->kind = GUARD_OPEN; break;
	case SNIFF_UNDECIDED: break;
	}
	return (int)pass;
}

/* A hello of TLS in the record of SSL 2, which servers still take. @len: of what is there by now. */
static bool is_old_hello(const uint8_t *data, size_t len)
{
	return (data[0] & 0x80) && (len < 3 || data[2] == 1) && (len < 4 || data[3] == 3);
}

static void look(struct guard *g, const uint8_t *data, size_t len)
{
	const size_t blank = sniff_blanks(data, len);

	if (data[0] == TLS_HANDSHAKE || (is_old_hello(data, len) && len >= 4))
		g->kind = GUARD_PROXY_TLS;
	else if (blank == len || is_old_hello(data, len))
		return;
	else /* nothing has passed: it begins anew each time */
		switch (sniff_request(data + blank, len - blank)) {
		case SNIFF_HTTP: g->kind = GUARD_PROXY; break;
		case SNIFF_OTHER: g->kind = GUARD_OTHER; break;
		case SNIFF_UNDECIDED: break;
		}
}

/* What may not be spoken on this port. Return: enum net_reason. */
static unsigned refuse(const struct guard *g)
{
	if (g->only == 443 && (g->kind == GUARD_PROXY || g->kind == GUARD_OTHER))
		return NET_NOT_TLS;
	if (g->only == 80 && (g->kind == GUARD_PROXY_TLS || g->kind == GUARD_OTHER))
		return NET_NOT_HTTP;
	return NET_OK;
}

int guard_check(struct guard *g, const uint8_t *data, size_t len, const char *name,
		unsigned *ret_reason)
{
	int n;

	if (guard_sniffs(g)) {
		n = sniff(g, data, len);
		*ret_reason = NET_NOT_HTTP;
		if (n < 0 || guard_sniffs(g))
			return n;
	}
	switch (g->kind) {
	case GUARD_TLS:
		n = hello_check(&g->hello, data, len, name, ret_reason);
		if (g->hello.done)
			g->kind = GUARD_OPEN;
		return n;
	case GUARD_LOOK:
		look(g, data, len);
		*ret_reason = refuse(g);
		return *ret_reason == NET_OK ? 0 : -EACCES;
	case GUARD_PROXY:
	case GUARD_PROXY_TLS:
	case GUARD_OTHER: return 0;
	case GUARD_SNIFF:
	case GUARD_NO_PROXY:
	case GUARD_OPEN: break;
	}
	return (int)len;
}
