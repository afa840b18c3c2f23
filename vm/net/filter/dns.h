/* SPDX-License-Identifier: Apache-2.0 */
/* Parses and writes DNS messages, as far as a sandbox's only name server needs it. */
#ifndef XSBX_VM_NET_FILTER_DNS_H
#define XSBX_VM_NET_FILTER_DNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/base/allow.h"

#define DNS_PORT	53
#define DNS_HEADER	12
#define DNS_MESSAGE_MAX 512 /* no answer is longer */

enum dns_type { DNS_A = 1, DNS_PTR = 12, DNS_AAAA = 28, DNS_SVCB = 64, DNS_HTTPS = 65 };

enum dns_rcode { DNS_NOERROR = 0, DNS_FORMERR = 1, DNS_NXDOMAIN = 3, DNS_REFUSED = 5 };

/*
 * - `question` points to the bytes of the only question, to be repeated in the answer.
 * - `name` is canonical if `is_host`; else it is the name with unusual bytes replaced by ?.
 */
struct dns_query {
	uint16_t id, flags, type, class;
	char name[ALLOW_NAME_MAX + 1];
	bool is_host;
	const uint8_t *question;
	size_t question_len;
};

/**
 * dns_parse() - Parse a query
 * @msg: Message
 * @len: Its length
 * @ret_query: The query, which points into @msg. With -EINVAL only `id` and `flags` are valid
 *
 * Return: 0; -EINVAL: a malformed query; -EBADMSG: not a query, and not to be answered.
 */
int dns_parse(const uint8_t *msg, size_t len, struct dns_query *ret_query);

/**
 * dns_answer() - Write the answer to a query
 * @q: Query; with DNS_FORMERR only `id` and `flags` are used
 * @rcode: Result code
 * @address: In network order; 0 for no answer record
 * @ttl: Lifetime of the address, in seconds
 * @ret_msg: Result; DNS_MESSAGE_MAX bytes
 *
 * Return: The answer's length.
 */
size_t dns_answer(const struct dns_query *q, enum dns_rcode rcode, uint32_t address, uint32_t ttl,
		  uint8_t ret_msg[static DNS_MESSAGE_MAX]);

#endif
