/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what the daemon hears from a network's filter, and from the process that connects. */
/* modules: vm/net/gateway.c vm/net/gateway_policy.c vm/net/leave.c vm/base/egress.c vm/base/rules.c vm/base/place.c vm/base/http_path.c vm/base/secret_use.c vm/base/words.c vm/net/allow_check.c vm/net/dialer.c vm/base/packets.c vm/base/lent.c vm/base/fdpass.c vm/base/allow.c vm/base/address.c vm/base/net_reason.c vm/base/record.c vm/base/fdbag.c vm/base/buf.c vm/base/turn.c vm/base/blackbox.c vm/base/estate.c vm/base/estate_file.c vm/base/io.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c vm/base/memory.c */
/* libs: uv */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vm/net/dial/message.h"
#include "vm/net/dialer.h"
#include "vm/net/gateway.h"
#include "vm/base/net_reason.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * A row of {u8 to, u8 length, bytes}: packets, to the gateway where `to` is even, as if from the dialer
 * where it is odd. The first four bytes of a packet are taken modulo 16, so that types are met; bit 1 of
 * `to` sends a descriptor along, bit 2 fills the packet up to a whole NET_DIAL.
 */

static int dialer_end = -1;
static unsigned ended, dialers;

static void on_ready(void *data)
{
	(void)data;
	assert(!ended);
}

static void on_denied(void *data, const struct net_denied *what)
{
	(void)data;
	assert(!ended && what->reason < NET_NREASONS);
	assert(memchr(what->name, '\0', sizeof(what->name)) && *what->name);
	for (const char *c = what->name; *c; c++)
		assert(*c > ' ' && *c < 0x7f);
}

static void on_stats(void *data, const struct net_stats *stats)
{
	(void)data;
	(void)stats;
	assert(!ended);
}

static void on_ended(void *data, int err)
{
	(void)data;
	assert(err < 0);
	ended++;
}

static const struct gateway_events events = {
	.ready = on_ready, .denied = on_denied, .stats = on_stats, .ended = on_ended};

static int start_dialer(struct dialer *d)
{
	int sv[2];

	(void)d;
	if (dialers++ > 3 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, sv) < 0)
		return -EAGAIN;
	if (dialer_end >= 0)
		close(dialer_end);
	dialer_end = sv[1];
	return sv[0];
}

static void on_dialer_closed(struct dialer *d)
{
	(void)d;
}

static void send_packet(int sock, const uint8_t *bytes, size_t len, uint8_t to)
{
	char packet[sizeof(struct net_denied) + 300] = {0}, control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {packet, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	uint32_t type = 0;
	int fd = -1;

	memcpy(packet, bytes, len);
	memcpy(&type, packet, sizeof(type));
	type %= 16;
	memcpy(packet, &type, sizeof(type));
	if (to & 4)
		iov.iov_len = to & 1		   ? sizeof(struct dial_done)
			      : type == NET_DENIED ? sizeof(struct net_denied)
			      : type == NET_STATS  ? sizeof(struct net_stats)
						   : sizeof(struct net_dial);
	if (to & 2) {
		struct cmsghdr *c;

		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&msg);
		*c = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	(void)!sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (fd >= 0)
		close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char list[] = "a.test *.b.test:8443 10.0.0.1 host.internal:9 *:22";
	struct gateway_config cfg = {.events = &events, .owner = 1, .host_ports = {{9}, 1}};
	struct dialer dialer = {.start = start_dialer, .closed = on_dialer_closed};
	char why[VM_WHY_MAX];
	struct gateway *gw;
	uv_loop_t loop;
	int sv[2];

	ended = dialers = 0;
	assert(uv_loop_init(&loop) == 0);
	assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, sv) == 0);
	dialer_init(&dialer, &loop);
	cfg.dialer = &dialer;
	assert(gateway_new(&loop, sv[0], &cfg, &gw) == 0);
	assert(gateway_allow(gw, list, sizeof(list) - 1, why) == 0);
	while (size >= 2 && !ended) {
		const uint8_t to = data[0];
		const size_t len = data[1] < size - 2 ? data[1] : size - 2;

		send_packet(to & 1 && dialer_end >= 0 ? dialer_end : sv[1], data + 2, len, to);
		data += 2 + len;
		size -= 2 + len;
		uv_run(&loop, UV_RUN_NOWAIT);
	}
	gateway_close(gw, NULL, NULL);
	close(sv[1]);
	dialer_close(&dialer);
	uv_run(&loop, UV_RUN_NOWAIT);
	if (dialer_end >= 0)
		close(dialer_end);
	dialer_end = -1;
	for (int i = 0; i < 10 && uv_loop_alive(&loop); i++)
		uv_run(&loop, UV_RUN_NOWAIT);
	assert(uv_loop_close(&loop) == 0);
	return 0;
}
