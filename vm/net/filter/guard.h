/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection may say, by the port it goes to. */
#ifndef XSBX_VM_NET_FILTER_GUARD_H
#define XSBX_VM_NET_FILTER_GUARD_H

#include "hello.h"
#include "http.h"

/* As much as a guard may ask to see at once. */
#define GUARD_HOLD_MAX 40960

enum guard_kind {
	GUARD_OPEN,  /* anything */
	GUARD_TLS,   /* port 443: TLS, for this name */
	GUARD_HTTP,  /* port 80: HTTP/1, for this name */
	GUARD_SNIFF, /* other ports: if it looks like one of these, as these; else anything */
};

struct guard {
	enum guard_kind kind;
	union {
		struct hello hello;
		struct http http;
	};
};

/* The guard of a connection to @port, if there is to be one. */
struct guard guard_for(uint16_t port);

/**
 * guard_check() - Look at what a client sends
 * @g: Guard
 * @data: What it sends next, from where the last call stopped
 * @len: How much of it there is by now, more than 0
 * @name: The name that the connection is for
 * @ret_reason: Why not, if -EACCES is returned
 *
 * Return: How many of these bytes may pass, 0 if more are needed to tell, or -EACCES.
 */
int guard_check(struct guard *g, const uint8_t *data, size_t len, const char *name,
		unsigned *ret_reason);

#endif
