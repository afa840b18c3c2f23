/* SPDX-License-Identifier: Apache-2.0 */
/* Does a client that may send anything start with a request of HTTP/1? */
#ifndef XSBX_VM_NET_FILTER_SNIFF_H
#define XSBX_VM_NET_FILTER_SNIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zeroes before the first byte of a connection. */
struct sniff {
	bool begun; /* part of the first request's method has passed before it was recognized */
};

/* How many line ends and blanks are at the beginning, as servers may let pass in front of a request. */
size_t sniff_blanks(const uint8_t *data, size_t len);

enum sniffed { SNIFF_UNDECIDED, SNIFF_HTTP, SNIFF_OTHER };

/**
 * sniff_http() - Look at the first bytes
 * @h: State
 * @data: Data, from where the last call stopped
 * @len: Number of bytes so far, more than 0
 * @ret_pass: Number of bytes that may pass while it is undecided
 */
enum sniffed sniff_http(struct sniff *h, const uint8_t *data, size_t len, size_t *ret_pass);

/* Likewise, of a connection of which nothing has passed. What is a request only to who reads generously is one here: a server that
 * refuses it may read the next one on the same connection, and that would be seen by nobody. */
enum sniffed sniff_request(const uint8_t *data, size_t len);

#endif
