/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the server name that a TLS client announces. */
#ifndef XSBX_VM_NET_FILTER_HELLO_H
#define XSBX_VM_NET_FILTER_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HELLO_MAX 16384 /* of a ClientHello, which usually has 200 to 2000 bytes */

/* All zeroes before the first byte of a connection. */
struct hello {
	bool greeted;  /* the first ClientHello has passed */
	bool changed;  /* a ChangeCipherSpec has passed */
	bool early;    /* the client announced early data */
	bool done;     /* nothing that follows can contain a server name */
	unsigned skip; /* remaining bytes of a data record */
};

/**
 * hello_check() - Check data that the client sends
 * @h: State
 * @data: Data, from where the last call stopped
 * @len: Number of bytes so far
 * @name: The allowed server name, canonical
 * @ret_reason: Why not, if -EACCES is returned
 *
 * Return: How many of these bytes may pass, 0 if more are needed to tell, or -EACCES. Once @h is
 * `done` everything may pass.
 */
int hello_check(struct hello *h, const uint8_t *data, size_t len, const char *name,
		unsigned *ret_reason);

#endif
