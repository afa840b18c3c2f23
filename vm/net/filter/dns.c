/* SPDX-License-Identifier: Apache-2.0 */
/* Parses and writes DNS messages, as far as a sandbox's only name server needs it. */
#include "dns.h"

#include <errno.h>
#include <string.h>

#define FLAG_RESPONSE  0x8000
#define FLAG_RECURSION 0x0100 /* desired */
#define FLAG_AVAILABLE 0x0080 /* recursion is */
#define OPCODE	       0x7800

#define CLASS_IN       1
#define LABEL_MAX      63
#define WIRE_NAME_MAX  255

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint8_t *put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
	return p + 2;
}

static char printable(uint8_t c)
{
	return c > ' ' && c < 0x7f && c != '.' ? (char)c : '?';
}

/*
 * The name at the start of @p. A question comes first in its message, so it has nothing before it
 * that a compressed name could point to: a pointer is an error.
 *
 * Return: the length on the wire, or -EINVAL.
 */
static int parse_name(const uint8_t *p, size_t len, struct dns_query *q)
{
	char text[WIRE_NAME_MAX + 1];
	size_t at = 0, out = 0;

	while (at < len && p[at] != 0) {
		const size_t label = p[at++];

		if (label > LABEL_MAX || label >= len - at || at + label + 1 > WIRE_NAME_MAX)
			return -EINVAL;
		if (out > 0)
			text[out++] = '.';
		for (size_t i = 0; i < label; i++)
			text[out++] = printable(p[at++]);
	}
	if (at >= len)
		return -EINVAL;
	text[out] = '\0';
	q->is_host = allow_canonical(text, out, q->name) == 0;
	if (!q->is_host) {
		out = out < sizeof(q->name) ? out : sizeof(q->name) - 1;
		memcpy(q->name, out ? text : ".", out ? out : 1);
		q->name[out ? out : 1] = '\0';
	}
	return (int)at + 1;
}

int dns_parse(const uint8_t *msg, size_t len, struct dns_query *ret_query)
{
	struct dns_query *q = ret_query;
	int name;

	if (len < DNS_HEADER || (get16(msg + 2) & FLAG_RESPONSE))
		return -EBADMSG;
	*q = (struct dns_query){.id = get16(msg), .flags = get16(msg + 2)};
	/* One question, no answers; what else a resolver adds (EDNS) may be ignored. */
	if ((q->flags & OPCODE) || get16(msg + 4) != 1 || get16(msg + 6) != 0)
		return -EINVAL;
	name = parse_name(msg + DNS_HEADER, len - DNS_HEADER, q);
	if (name < 0 || len - DNS_HEADER - (size_t)name < 4)
		return -EINVAL;
	q->question = msg + DNS_HEADER;
	q->question_len = (size_t)name + 4;
	q->type = get16(q->question + name);
	q->class = get16(q->question + name + 2);
	return q->class == CLASS_IN ? 0 : -EINVAL;
}

size_t dns_answer(const struct dns_query *q, enum dns_rcode rcode, uint32_t address, uint32_t ttl,
		  uint8_t ret_msg[static DNS_MESSAGE_MAX])
{
	const bool repeat = rcode != DNS_FORMERR;
	uint8_t *p = ret_msg;

	p = put16(p, q->id);
	p = put16(p, FLAG_RESPONSE | (q->flags & FLAG_RECURSION) | FLAG_AVAILABLE | rcode);
	p = put16(p, repeat);
	p = put16(p, address != 0);
	p = put16(p, 0);
	p = put16(p, 0);
	if (repeat) {
		memcpy(p, q->question, q->question_len);
		p += q->question_len;
	}
	if (address) {
		p = put16(p, 0xc000 | DNS_HEADER); /* the question's name */
		p = put16(p, DNS_A);
		p = put16(p, CLASS_IN);
		p = put16(put16(p, ttl >> 16), ttl & 0xffff);
		p = put16(p, sizeof(address));
		memcpy(p, &address, sizeof(address));
		p += sizeof(address);
	}
	return (size_t)(p - ret_msg);
}
