/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the host named in each request of an HTTP/1 client. */
#ifndef XSBX_VM_NET_FILTER_HTTP_H
#define XSBX_VM_NET_FILTER_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_HEAD_MAX 32768 /* of a request line and headers */

enum http_phase { HTTP_HEAD, HTTP_BODY, HTTP_CHUNK, HTTP_CHUNK_END, HTTP_TRAILER };

/* All zeroes before the first byte of a connection. */
struct http {
	enum http_phase phase;
	uint64_t left; /* remaining bytes of the body or chunk */
	bool chunked;
	bool begun; /* part of the first request's method has passed before it was recognized */
};

/**
 * http_check() - Check data that the client sends
 * @h: State
 * @data: Data, from where the last call stopped
 * @len: Number of bytes so far
 * @name: The allowed host, canonical
 * @ret_reason: Why not, if -EACCES is returned
 *
 * Return: How many of these bytes may pass, 0 if more are needed to tell, or -EACCES.
 */
int http_check(struct http *h, const uint8_t *data, size_t len, const char *name,
	       unsigned *ret_reason);

enum http_sniffed { HTTP_UNDECIDED, HTTP_SPOKEN, HTTP_NOT_SPOKEN };

/**
 * http_sniff() - Does a client that may send anything start with a request?
 * @h: State
 * @data: Data, from where the last call stopped
 * @len: Number of bytes so far, more than 0
 * @ret_pass: Number of bytes that may pass while it is undecided
 */
enum http_sniffed http_sniff(struct http *h, const uint8_t *data, size_t len, size_t *ret_pass);

#endif
