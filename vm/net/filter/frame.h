/* SPDX-License-Identifier: Apache-2.0 */
/* Parses Ethernet frames, and makes the few that we send ourselves. */
#ifndef XSBX_VM_NET_FILTER_FRAME_H
#define XSBX_VM_NET_FILTER_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define FRAME_HEADER  14
#define FRAME_MAX     (FRAME_HEADER + 65535)
#define FRAME_OWN_MAX 1024 /* of frames that we make */

#define TCP_FIN	      0x01
#define TCP_SYN	      0x02
#define TCP_RST	      0x04
#define TCP_ACK	      0x10

enum frame_kind {
	FRAME_BAD, /* malformed, or in a form that honest stacks do not send */
	FRAME_ARP,
	FRAME_TCP,
	FRAME_UDP,
	FRAME_IPV4, /* other protocols */
	FRAME_IPV6,
	FRAME_OTHER, /* other Ethernet protocols */
};

/*
 * - Addresses are in network order, ports in the host's.
 * - FRAME_TCP, FRAME_UDP and FRAME_IPV4 have no IP options and are not fragments, so their destination
 *   is unambiguous.
 * - `payload` is that of TCP or UDP.
 */
struct frame {
	enum frame_kind kind;
	const uint8_t *data;
	size_t len;
	uint32_t src, dst;
	uint16_t sport, dport;
	uint8_t protocol, flags;
	uint32_t seq, ack; /* of TCP */
	const uint8_t *payload;
	size_t payload_len;
};

/**
 * frame_parse() - Parse a frame
 * @data: The frame, starting with its Ethernet header
 * @len: Its length
 *
 * Return: The result, which points into @data.
 */
struct frame frame_parse(const uint8_t *data, size_t len);

/*
 * Answers to a frame, written to @ret_frame. Return: their length.
 * - a datagram with @len bytes of payload, at most DNS_MESSAGE_MAX
 * - a reset that refuses a connection
 * - an ICMP error that refuses a datagram
 * And a copy without TCP options, of the first packet of a connection or the answer to it.
 */
size_t frame_datagram(const struct frame *f, const void *payload, size_t len,
		      uint8_t ret_frame[static FRAME_OWN_MAX]);
size_t frame_reset(const struct frame *f, uint8_t ret_frame[static FRAME_OWN_MAX]);
size_t frame_prohibited(const struct frame *f, uint8_t ret_frame[static FRAME_OWN_MAX]);
size_t frame_without_options(const struct frame *f, uint8_t ret_frame[static FRAME_OWN_MAX]);

#endif
