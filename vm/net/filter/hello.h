/* SPDX-License-Identifier: Apache-2.0 */
/* TLS as the client speaks it first: which server does it say it wants? */
#ifndef XSBX_VM_NET_FILTER_HELLO_H
#define XSBX_VM_NET_FILTER_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HELLO_MAX 16384 /* of a ClientHello; usual ones have 200 to 2000 bytes */

/* All zeroes before the first byte of a connection. */
struct hello {
	bool greeted;  /* the first ClientHello has passed */
	bool changed;  /* so has a ChangeCipherSpec */
	bool early;    /* it announced data before the server's answer */
	bool done;     /* nothing that follows can name a server again */
	unsigned skip; /* bytes of a record of data that still come */
};

/**
 * hello_check() - Look at what a client sends
 * @h: What passed before
 * @data: What it sends next, from where the last call stopped
 * @len: How much of it there is by now
 * @name: The server name that is allowed, canonical
 * @ret_reason: Why not, if -EACCES is returned
 *
 * Return: How many of these bytes may pass, 0 if more are needed to tell, or -EACCES. Once @h is
 * `done` everything may pass.
 */
int hello_check(struct hello *h, const uint8_t *data, size_t len, const char *name,
		unsigned *ret_reason);

#endif
