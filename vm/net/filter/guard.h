/* SPDX-License-Identifier: Apache-2.0 */
/* Checks what a connection may send, depending on its port. */
#ifndef XSBX_VM_NET_FILTER_GUARD_H
#define XSBX_VM_NET_FILTER_GUARD_H

#include <stdbool.h>

#include "hello.h"
#include "sniff.h"

/* The most bytes that a guard may need to see at once. */
#define GUARD_HOLD_MAX 40960

enum guard_kind {
	GUARD_OPEN, /* anything */
	GUARD_TLS,  /* port 443: TLS, for this name */
	GUARD_SNIFF, /* other ports: TLS for this name, or HTTP/1, if it looks like it; else anything */
	GUARD_NO_PROXY, /* likewise, with TLS for any name */
	GUARD_LOOK, /* rules depend on it: likewise, but nothing passes before it is known what it is */
	/* What was found, or is the only thing that may be: */
	GUARD_PROXY,	 /* HTTP/1, to be looked into */
	GUARD_PROXY_TLS, /* TLS, likewise */
	GUARD_OTHER,	 /* with GUARD_LOOK: neither */
};

struct guard {
	enum guard_kind kind;
	uint16_t only; /* with GUARD_LOOK: 80, HTTP/1 alone; 443, TLS alone; or 0 */
	struct hello hello;
	struct sniff sniff;
};

/* What it is there for. */
enum guard_duty {
	GUARD_NAMES,	     /* the name that is said is the one that the connection is for */
	GUARD_PROXIES,	     /* it is no proxy: HTTP is looked into, and all else passes */
	GUARD_REQUESTS,	     /* rules depend on what is said there */
	GUARD_REQUESTS_HELD, /* ... and ports 80 and 443 are for what is spoken there, all the same; or it is refused and told so */
};

/* The guard for a connection to @port. */
struct guard guard_for(uint16_t port, enum guard_duty duty);

/* Is it still to be found out what it is, while bytes pass? */
static inline bool guard_sniffs(const struct guard *g)
{
	return g->kind == GUARD_SNIFF || g->kind == GUARD_NO_PROXY;
}

/**
 * guard_check() - Check data that the client sends
 * @g: Guard
 * @data: Data, from where the last call stopped
 * @len: Number of bytes so far, more than 0
 * @name: Name that the connection is for
 * @ret_reason: Why not, if -EACCES is returned
 *
 * Return: How many of these bytes may pass, 0 if more are needed to tell, or -EACCES. If its kind is GUARD_PROXY,
 * GUARD_PROXY_TLS or GUARD_OTHER then, none of them has passed.
 */
int guard_check(struct guard *g, const uint8_t *data, size_t len, const char *name,
		unsigned *ret_reason);

#endif
