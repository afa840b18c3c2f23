/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1 as the client speaks it: which host does each request name? */
#ifndef XSBX_VM_NET_FILTER_HTTP_H
#define XSBX_VM_NET_FILTER_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_HEAD_MAX 32768 /* of a request's line and headers */

enum http_phase { HTTP_HEAD, HTTP_BODY, HTTP_CHUNK, HTTP_CHUNK_END, HTTP_TRAILER };

/* All zeroes before the first byte of a connection. */
struct http {
	enum http_phase phase;
	uint64_t left; /* bytes of the body, or of the chunk, that still come */
	bool chunked;
	bool begun; /* a part of the first request's method has passed before it was known for one */
};

/**
 * http_check() - Look at what a client sends
 * @h: What passed before
 * @data: What it sends next, from where the last call stopped
 * @len: How much of it there is by now
 * @name: The host that is allowed, canonical
 * @ret_reason: Why not, if -EACCES is returned
 *
 * Return: How many of these bytes may pass, 0 if more are needed to tell, or -EACCES.
 */
int http_check(struct http *h, const uint8_t *data, size_t len, const char *name,
	       unsigned *ret_reason);

enum http_sniffed { HTTP_UNDECIDED, HTTP_SPOKEN, HTTP_NOT_SPOKEN };

/**
 * http_sniff() - Does a client that may say anything begin with a request?
 * @h: What passed before
 * @data: What it says next, from where the last call stopped
 * @len: How much of it there is by now, more than 0
 * @ret_pass: How many of these bytes may pass although it is undecided
 */
enum http_sniffed http_sniff(struct http *h, const uint8_t *data, size_t len, size_t *ret_pass);

#endif
