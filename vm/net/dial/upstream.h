/* SPDX-License-Identifier: Apache-2.0 */
/* What is said to a proxy, and what it answers: RFC 9110, section 9.3.6 (CONNECT). */
#ifndef XSBX_VM_NET_DIAL_UPSTREAM_H
#define XSBX_VM_NET_DIAL_UPSTREAM_H

#include <http_parser.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/base/allow.h"

#define UPSTREAM_ASK_MAX  (2 * ALLOW_NAME_MAX + 80) /* bytes of a request */
#define UPSTREAM_HEAD_MAX 16384			    /* bytes of an answer's head */

/* An answer that is being read. */
struct upstream {
	http_parser parser;
	size_t heard;	 /* bytes */
	unsigned status; /* of the head that is whole; or 0 */
};

/* Writes the request for a tunnel to @name, a name or an address as text. Return: its bytes. */
size_t upstream_ask(const char *name, uint16_t port, char ret_text[static UPSTREAM_ASK_MAX]);

void upstream_init(struct upstream *u);

/**
 * upstream_hear() - Read a part of the answer
 * @u: Answer
 * @bytes: The part
 * @len: Its length
 * @ret_used: How much of it belongs to the answer; what is behind that has come through the tunnel
 *
 * Return: 0 if the head is whole, and @u->status says what it is; -EAGAIN for more; -EPROTO.
 */
int upstream_hear(struct upstream *u, const char *bytes, size_t len, size_t *ret_used);

/* The enum net_reason of a status. */
unsigned upstream_reason(unsigned status);

#endif
