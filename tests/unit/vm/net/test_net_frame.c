/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: what is in them, what we make of them, and how they travel. */
/* modules: vm/net/filter/frame.c vm/net/filter/nic.c vm/base/buf.c */
#include <sys/socket.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "vm/net/filter/frame.h"
#include "vm/net/filter/nic.h"

#define ETH	       "\x52\x55\1\2\3\4\x52\x54\5\6\7\x08\x08\0"
#define IP(len, proto) "\x45\0\0" len "\0\1\x40\0\x40" proto "\0\0\xc6\x12\0\2\1\2\3\4"
#define TCP_SYN_PACKET ETH IP("\x28", "\6") "\x9c\x40\1\xbb\0\0\1\0\0\0\0\0\x50\2\xff\xff\0\0\0\0"
#define UDP_PACKET     ETH IP("\x1e", "\x11") "\x9c\x40\0\x35\0\x0a\0\0hi"

static struct frame parse(const char *bytes, size_t len)
{
	return frame_parse((const uint8_t *)bytes, len);
}

#define PARSE(bytes) parse(bytes, sizeof(bytes) - 1)

static void kinds(void **state)
{
	struct frame f = PARSE(TCP_SYN_PACKET);

	(void)state;
	assert_int_equal(f.kind, FRAME_TCP);
	assert_int_equal(f.sport, 40000);
	assert_int_equal(f.dport, 443);
	assert_int_equal(f.flags, TCP_SYN);
	assert_int_equal(f.seq, 256);
	assert_int_equal(f.payload_len, 0);
	assert_memory_equal(&f.dst, "\1\2\3\4", 4);
	f = PARSE(UDP_PACKET "padding");
	assert_int_equal(f.kind, FRAME_UDP);
	assert_int_equal(f.payload_len, 2);
	assert_memory_equal(f.payload, "hi", 2);
	assert_int_equal(PARSE(ETH IP("\x14", "\1")).kind, FRAME_IPV4);
	assert_int_equal(PARSE("\xff\xff\xff\xff\xff\xff\x52\x54\5\6\7\x08\x08\6\0\1\x08\0\6\4\0\1"
			       "xxxxxxxxxxxxxxxxxxxx")
				 .kind,
			 FRAME_ARP);
	assert_int_equal(PARSE("xxxxxxxxxxxx\x86\xdd"
			       "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")
				 .kind,
			 FRAME_IPV6);
	assert_int_equal(PARSE("xxxxxxxxxxxx\x88\x8e").kind, FRAME_OTHER);
}

static void broken(void **state)
{
	char copy[sizeof(TCP_SYN_PACKET)];

	(void)state;
	for (size_t n = 0; n < sizeof(TCP_SYN_PACKET) - 1; n++)
		assert_int_equal(parse(TCP_SYN_PACKET, n).kind, FRAME_BAD);
	for (size_t n = 0; n < sizeof(UDP_PACKET) - 1; n++)
		assert_int_equal(parse(UDP_PACKET, n).kind, FRAME_BAD);
	/* options, fragments (first and later), IPv6 in IPv4's clothes, lengths, a TCP offset */
	static const struct {
		size_t at;
		char byte;
	} odd[] = {{14, 0x46}, {14, 0x44}, {14, 0x65}, {20, 0x20}, {21, 1},	    {17, 0x13},
		   {17, 0x29}, {16, 1},	   {46, 0x40}, {46, 0x60}, {46, (char)0xf0}};

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		memcpy(copy, TCP_SYN_PACKET, sizeof(copy));
		copy[odd[i].at] = odd[i].byte;
		assert_int_equal(parse(copy, sizeof(copy) - 1).kind, FRAME_BAD);
	}
	memcpy(copy, UDP_PACKET, sizeof(UDP_PACKET));
	copy[39] = 7;
	assert_int_equal(parse(copy, sizeof(UDP_PACKET) - 1).kind, FRAME_BAD);
	copy[39] = 11;
	assert_int_equal(parse(copy, sizeof(UDP_PACKET) - 1).kind, FRAME_BAD);
}

static unsigned sum(const uint8_t *p, size_t len, unsigned begin)
{
	uint32_t s = begin;

	for (size_t i = 0; i < len; i++)
		s += i % 2 ? p[i] : (unsigned)p[i] << 8;
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return s;
}

static void answers(void **state)
{
	const struct frame tcp = PARSE(TCP_SYN_PACKET), udp = PARSE(UDP_PACKET);
	uint8_t out[FRAME_OWN_MAX];
	struct frame f;
	size_t n;

	(void)state;
	n = frame_reset(&tcp, out);
	f = frame_parse(out, n);
	assert_int_equal(f.kind, FRAME_TCP);
	assert_int_equal(f.flags, TCP_RST | TCP_ACK);
	assert_int_equal(f.sport, 443);
	assert_int_equal(f.dport, 40000);
	assert_memory_equal(out, "\x52\x54\5\6\7\x08\x52\x55\1\2\3\4", 12);
	assert_memory_equal(out + 42, "\0\0\1\1", 4);
	assert_int_equal(sum(out + 14, 20, 0), 0xffff);
	assert_int_equal(sum(out + 26, n - 26, 6 + 20), 0xffff);
	n = frame_datagram(&udp, "odd", 3, out);
	f = frame_parse(out, n);
	assert_int_equal(f.kind, FRAME_UDP);
	assert_int_equal(f.dport, 40000);
	assert_memory_equal(f.payload, "odd", 3);
	assert_int_equal(sum(out + 14, 20, 0), 0xffff);
	assert_int_equal(sum(out + 26, n - 26, 17 + 11), 0xffff);
	n = frame_prohibited(&udp, out);
	assert_int_equal(frame_parse(out, n).kind, FRAME_IPV4);
	assert_int_equal(sum(out + 34, n - 34, 0), 0xffff);
	assert_memory_equal(out + 34, "\3\x0d", 2);
	assert_memory_equal(out + 42, &UDP_PACKET[14], 28);
}

static char seen[100];

static void on_frame(void *data, uint8_t *frame, size_t len)
{
	(void)data;
	snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%.*s|", (int)len,
		 (char *)frame);
}

static void streams(void **state)
{
	static const char bytes[] = "\0\0\0\3one\0\0\0\0\0\0\0\5three";
	struct nic nic;
	char in[100];
	int sv[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	assert_int_equal(nic_init(&nic, sv[0], NIC_STREAM), 0);
	seen[0] = '\0';
	for (size_t i = 0; i < sizeof(bytes) - 1; i++) {
		assert_int_equal(write(sv[1], bytes + i, 1), 1);
		assert_int_equal(nic_read(&nic, on_frame, NULL), 0);
	}
	assert_string_equal(seen, "one||three|");
	nic_send(&nic, "hello", 5);
	nic_send(&nic, "x", 1);
	assert_int_equal(nic_flush(&nic), 0);
	assert_int_equal(read(sv[1], in, sizeof(in)), 14);
	assert_memory_equal(in, "\0\0\0\5hello\0\0\0\1x", 14);
	assert_int_equal(write(sv[1], "\0\1\0\x0e", 4), 4);
	assert_int_equal(nic_read(&nic, on_frame, NULL), -EPROTO);
	close(sv[1]);
	nic_fini(&nic);
}

/* What a guest does not read is kept within limits, and comes out whole. */
static void slow_guest(void **state)
{
	static char frame[60000];
	const enum nic_kind kind = *(enum nic_kind *)*state;
	static char in[65536];
	size_t got = 0, sent = 0;
	struct nic nic;
	ssize_t n;
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, kind == NIC_STREAM ? SOCK_STREAM : SOCK_DGRAM, 0, sv),
			 0);
	assert_int_equal(nic_init(&nic, sv[0], kind), 0);
	for (; nic.dropped == 0; sent++)
		nic_send(&nic, frame, sizeof(frame));
	assert_true(nic_is_full(&nic));
	assert_true(nic.out.cap <= 1024 * 1024);
	while ((n = recv(sv[1], in, sizeof(in), MSG_DONTWAIT)) > 0) {
		got += (size_t)n;
		assert_int_equal(nic_flush(&nic), 0);
	}
	assert_int_equal(got, (sent - 1) * (sizeof(frame) + (kind == NIC_STREAM ? 4 : 0)));
	assert_false(nic_is_full(&nic));
	assert_null(nic.out.data);
	close(sv[1]);
	nic_fini(&nic);
}

int main(void)
{
	enum nic_kind stream = NIC_STREAM, packet = NIC_PACKET;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds),
		cmocka_unit_test(broken),
		cmocka_unit_test(answers),
		cmocka_unit_test(streams),
		cmocka_unit_test_prestate(slow_guest, &stream),
		cmocka_unit_test_prestate(slow_guest, &packet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
