/* SPDX-License-Identifier: Apache-2.0 */
/* Parses Ethernet frames, and makes the few that we send ourselves. */
#include "frame.h"

#include <string.h>

#include "vm/base/util.h"

#define TYPE_IPV4	       0x0800
#define TYPE_ARP	       0x0806
#define TYPE_IPV6	       0x86dd

#define PROTOCOL_ICMP	       1
#define PROTOCOL_TCP	       6
#define PROTOCOL_UDP	       17

#define IP_HEADER	       20
#define IPV6_HEADER	       40
#define TCP_HEADER	       20
#define UDP_HEADER	       8
#define ICMP_HEADER	       8
#define ARP_LEN		       28

#define UNREACHABLE	       3
#define UNREACHABLE_PROHIBITED 13

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static void put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void put32(uint8_t *p, uint32_t v)
{
	put16(p, v >> 16);
	put16(p + 2, v & 0xffff);
}

/* Everything above IPv4, of a frame whose IP header is there. */
static void parse_ipv4(struct frame *f)
{
	const uint8_t *ip = f->data + FRAME_HEADER, *p = ip + IP_HEADER;
	const size_t total = get16(ip + 2);
	size_t len, header;

	memcpy(&f->src, ip + 12, 4);
	memcpy(&f->dst, ip + 16, 4);
	f->protocol = ip[9];
	/* No options, no fragments; a frame may have padding behind the packet. */
	if (ip[0] != 0x45 || (get16(ip + 6) & 0x3fff) || total < IP_HEADER ||
	    total > f->len - FRAME_HEADER)
		return;
	len = total - IP_HEADER;
	if (f->protocol == PROTOCOL_TCP) {
		if (len < TCP_HEADER)
			return;
		header = (size_t)(p[12] >> 4) * 4;
		if (header < TCP_HEADER || header > len)
			return;
		f->seq = get32(p + 4);
		f->ack = get32(p + 8);
		f->flags = p[13];
		f->kind = FRAME_TCP;
	} else if (f->protocol == PROTOCOL_UDP) {
		header = UDP_HEADER;
		if (len < UDP_HEADER || get16(p + 4) < UDP_HEADER || get16(p + 4) > len)
			return;
		len = get16(p + 4);
		f->kind = FRAME_UDP;
	} else {
		f->kind = FRAME_IPV4;
		return;
	}
	f->sport = get16(p);
	f->dport = get16(p + 2);
	f->payload = p + header;
	f->payload_len = len - header;
}

struct frame frame_parse(const uint8_t *data, size_t len)
{
	struct frame f = {.kind = FRAME_BAD, .data = data, .len = len};

	if (len < FRAME_HEADER || len > FRAME_MAX)
		return f;
	switch (get16(data + 12)) {
	case TYPE_ARP:
		/* Ethernet and IPv4 addresses */
		if (len >= FRAME_HEADER + ARP_LEN &&
		    !memcmp(data + FRAME_HEADER, "\0\1\10\0\6\4", 6))
			f.kind = FRAME_ARP;
		break;
	case TYPE_IPV4:
		if (len >= FRAME_HEADER + IP_HEADER)
			parse_ipv4(&f);
		break;
	case TYPE_IPV6:
		if (len >= FRAME_HEADER + IPV6_HEADER)
			f.kind = FRAME_IPV6;
		break;
	default: f.kind = FRAME_OTHER;
	}
	return f;
}

/* Adds up 16-bit words as the internet checksum does, without the last complement. */
static uint32_t add_up(uint32_t sum, const uint8_t *p, size_t len)
{
	for (; len > 1; p += 2, len -= 2)
		sum += get16(p);
	return len ? sum + (uint32_t)(p[0] << 8) : sum;
}

static unsigned checksum(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum & 0xffff;
}

/* The headers of an answer with @len bytes above IP; where those bytes go. */
static uint8_t *begin_answer(const struct frame *f, uint8_t *out, uint8_t protocol, size_t len)
{
	uint8_t *ip = out + FRAME_HEADER;

	memcpy(out, f->data + 6, 6);
	memcpy(out + 6, f->data, 6);
	put16(out + 12, TYPE_IPV4);
	memset(ip, 0, IP_HEADER);
	ip[0] = 0x45;
	put16(ip + 2, (unsigned)(IP_HEADER + len));
	put16(ip + 6, 0x4000); /* not to be fragmented */
	ip[8] = 64;
	ip[9] = protocol;
	memcpy(ip + 12, &f->dst, 4);
	memcpy(ip + 16, &f->src, 4);
	put16(ip + 10, checksum(add_up(0, ip, IP_HEADER)));
	return ip + IP_HEADER;
}

/* The checksum of what is above IP, with the pseudo header. */
static unsigned transport_checksum(const uint8_t *p, uint8_t protocol, size_t len)
{
	const uint32_t sum = add_up(protocol + (uint32_t)len, p - 8, 8);

	return checksum(add_up(sum, p, len));
}

size_t frame_datagram(const struct frame *f, const void *payload, size_t len,
		      uint8_t ret_frame[static FRAME_OWN_MAX])
{
	const size_t total = UDP_HEADER + len;
	uint8_t *udp = begin_answer(f, ret_frame, PROTOCOL_UDP, total);
	unsigned sum;

	put16(udp, f->dport);
	put16(udp + 2, f->sport);
	put16(udp + 4, (unsigned)total);
	put16(udp + 6, 0);
	memcpy(udp + UDP_HEADER, payload, len);
	sum = transport_checksum(udp, PROTOCOL_UDP, total);
	put16(udp + 6, sum ? sum : 0xffff);
	return FRAME_HEADER + IP_HEADER + total;
}

size_t frame_reset(const struct frame *f, uint8_t ret_frame[static FRAME_OWN_MAX])
{
	uint8_t *tcp = begin_answer(f, ret_frame, PROTOCOL_TCP, TCP_HEADER);

	memset(tcp, 0, TCP_HEADER);
	put16(tcp, f->dport);
	put16(tcp + 2, f->sport);
	put32(tcp + 8, f->seq + (uint32_t)f->payload_len + 1);
	tcp[12] = TCP_HEADER / 4 << 4;
	tcp[13] = TCP_RST | TCP_ACK;
	put16(tcp + 16, transport_checksum(tcp, PROTOCOL_TCP, TCP_HEADER));
	return FRAME_HEADER + IP_HEADER + TCP_HEADER;
}

size_t frame_prohibited(const struct frame *f, uint8_t ret_frame[static FRAME_OWN_MAX])
{
	const size_t quoted = IP_HEADER + UDP_HEADER, total = ICMP_HEADER + quoted;
	uint8_t *icmp = begin_answer(f, ret_frame, PROTOCOL_ICMP, total);

	memset(icmp, 0, ICMP_HEADER);
	icmp[0] = UNREACHABLE;
	icmp[1] = UNREACHABLE_PROHIBITED;
	memcpy(icmp + ICMP_HEADER, f->data + FRAME_HEADER, quoted);
	put16(icmp + 2, checksum(add_up(0, icmp, total)));
	return FRAME_HEADER + IP_HEADER + total;
}

size_t frame_without_options(const struct frame *f, uint8_t ret_frame[static FRAME_OWN_MAX])
{
	uint8_t *ip = ret_frame + FRAME_HEADER, *tcp = ip + IP_HEADER;

	memcpy(ret_frame, f->data, FRAME_HEADER + IP_HEADER + TCP_HEADER);
	put16(ip + 2, IP_HEADER + TCP_HEADER);
	put16(ip + 10, 0);
	put16(ip + 10, checksum(add_up(0, ip, IP_HEADER)));
	tcp[12] = TCP_HEADER / 4 << 4;
	put16(tcp + 16, 0);
	put16(tcp + 16, transport_checksum(tcp, PROTOCOL_TCP, TCP_HEADER));
	return FRAME_HEADER + IP_HEADER + TCP_HEADER;
}
