/* SPDX-License-Identifier: Apache-2.0 */
/* Checks what a connection may send, depending on its port. */
#ifndef XSBX_VM_NET_FILTER_GUARD_H
#define XSBX_VM_NET_FILTER_GUARD_H

#include "hello.h"
#include "http.h"

/* The most bytes that a guard may need to see at once. */
#define GUARD_HOLD_MAX 40960

enum guard_kind {
	GUARD_OPEN,  /* anything */
	GUARD_TLS,   /* port 443: TLS, for this name */
	GUARD_HTTP,  /* port 80: HTTP/1, for this name */
	GUARD_SNIFF, /* other ports: TLS or HTTP/1 if it looks like it; else anything */
};

struct guard {
	enum guard_kind kind;
	union {
		struct hello hello;
		struct http http;
	};
};

/* The guard for a connection to @port. */
struct guard guard_for(uint16_t port);

/**
 * guard_check() - Check data that the client sends
 * @g: Guard
 * @data: Data, from where the last call stopped
 * @len: Number of bytes so far, more than 0
 * @name: Name that the connection is for
 * @ret_reason: Why not, if -EACCES is returned
 *
 * Return: How many of these bytes may pass, 0 if more are needed to tell, or -EACCES.
 */
int guard_check(struct guard *g, const uint8_t *data, size_t len, const char *name,
		unsigned *ret_reason);

#endif
