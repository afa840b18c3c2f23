/* SPDX-License-Identifier: Apache-2.0 */
/* The TCP/IP stack that the guest talks to: a restricted libslirp. */
#include "stack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libslirp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "message.h"
#include "pollset.h"
#include "vm/base/guest_net.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * libslirp speaks TCP with the guest and would, left alone, open a socket of the host for each of
 * the guest's connections. Here it opens none: it is `restricted`, so that a connection goes
 * nowhere unless its address and port were named to it before, as something to reach through a
 * socket of the file system. stack_open() names them, one for each first packet that was found to be
 * allowed; what the guest may then talk to is our own listening socket, and nothing else.
 *
 * libslirp cannot say which connection arrives there. But it connects while it is handed the frame that
 * completes the handshake, and at no other time: so the connection that can be accepted right after a
 * frame went in belongs to that frame, which says where it goes.
 *
 * That listening socket needs no file system. libslirp hands the whole of an address structure to
 * connect(), of which it filled in the path; an empty path makes that the abstract address of 108
 * zero bytes. Abstract addresses belong to the network namespace, and each helper has one of its
 * own, so there is one stack in each. Were libslirp to do otherwise one day, connections would fail;
 * none would be taken for another.
 *
 * Ports of the guest are forwarded the same way round about: libslirp listens on an abstract address
 * named after the port, to which we connect for every connection that came from outside.
 *
 * The stack's own network spans all addresses, because it only lets those be named that are inside.
 * The guest has a small network and a default route; it all comes here.
 */

#define TARGETS_MAX 1024
#define BACKLOG	    64

struct target {
	struct in_addr address;
	uint16_t port;
};

struct stack {
	Slirp *slirp;
	SlirpCb callbacks;
	void (*send)(void *data, const void *frame, size_t len);
	void *data;
	int listener;
	struct target targets[TARGETS_MAX];
	size_t ntargets; /* ever; the last TARGETS_MAX of them are known to libslirp */
	struct pollset *set;
};

static ssize_t on_slirp_send(const void *frame, size_t len, void *data)
{
	struct stack *st = data;

	st->send(st->data, frame, len);
	return (ssize_t)len;
}

static void on_slirp_guest_error(const char *msg, void *data)
{
	(void)msg;
	(void)data;
}

static int64_t on_slirp_clock(void *data)
{
	struct timespec ts;

	(void)data;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

/* Timers are for IPv6 only, which is off. */
static void *on_slirp_timer_new(SlirpTimerCb cb, void *cb_data, void *data)
{
	(void)cb;
	(void)cb_data;
	return data;
}

static void on_slirp_timer_free(void *timer, void *data)
{
	(void)timer;
	(void)data;
}

static void on_slirp_timer_mod(void *timer, int64_t when, void *data)
{
	(void)timer;
	(void)when;
	(void)data;
}

/* Descriptors are asked for anew in every turn. */
static void on_slirp_descriptor(int fd, void *data)
{
	(void)fd;
	(void)data;
}

static void on_slirp_notify(void *data)
{
	(void)data;
}

static int listen_for_stack(void)
{
	const struct sockaddr_un name = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&name, sizeof(name)) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return -errno;
	return steal_fd(&fd);
}

int stack_new(unsigned mtu, void (*send)(void *data, const void *frame, size_t len), void *data,
	      struct stack **ret_stack)
{
	const SlirpConfig cfg = {
		.version = 4,
		.restricted = 1,
		.in_enabled = true,
		.vhost = {htonl(NET_GATEWAY)},
		.vnameserver = {htonl(NET_GATEWAY)},
		.vdhcp_start = {htonl(NET_GUEST)},
		.if_mtu = mtu,
		.if_mru = mtu,
		.disable_host_loopback = true,
		.disable_dns = true,
		.disable_dhcp = true,
	};
	struct stack *st = calloc(1, sizeof(*st));
	int r;

	if (!st)
		return -ENOMEM;
	st->callbacks = (SlirpCb){
		.send_packet = on_slirp_send,
		.guest_error = on_slirp_guest_error,
		.clock_get_ns = on_slirp_clock,
		.timer_new = on_slirp_timer_new,
		.timer_free = on_slirp_timer_free,
		.timer_mod = on_slirp_timer_mod,
		.register_poll_fd = on_slirp_descriptor,
		.unregister_poll_fd = on_slirp_descriptor,
		.notify = on_slirp_notify,
	};
	st->send = send;
	st->data = data;
	st->listener = listen_for_stack();
	r = st->listener;
	if (r < 0)
		goto err_stack;
	st->slirp = slirp_new(&cfg, &st->callbacks, st);
	r = -ENOMEM;
	if (!st->slirp)
		goto err_listener;
	*ret_stack = st;
	return 0;

err_listener:
	close(st->listener);
err_stack:
	free(st);
	return r;
}

void stack_free(struct stack *st)
{
	if (!st)
		return;
	slirp_cleanup(st->slirp);
	close(st->listener);
	free(st);
}

void stack_input(struct stack *st, const uint8_t *frame, size_t len)
{
	slirp_input(st->slirp, frame, (int)len);
}

int stack_open(struct stack *st, uint32_t address, uint16_t port)
{
	struct target *slot = &st->targets[st->ntargets % TARGETS_MAX];
	const size_t n = MIN(st->ntargets, (size_t)TARGETS_MAX);
	struct in_addr in = {address};

	for (size_t i = 0; i < n; i++)
		if (st->targets[i].address.s_addr == address && st->targets[i].port == port)
			return 0;
	if (st->ntargets >= TARGETS_MAX)
		slirp_remove_guestfwd(st->slirp, slot->address, slot->port);
	if (slirp_add_unix(st->slirp, "", &in, port) < 0)
		return -EADDRNOTAVAIL;
	*slot = (struct target){in, port};
	st->ntargets++;
	return 0;
}

int stack_accept(struct stack *st)
{
	const int fd = accept4(st->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static socklen_t forward_name(uint16_t port, struct sockaddr_un *ret)
{
	int len;

	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	len = snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "guest-port-%u", port);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

int stack_forward(struct stack *st, uint16_t port)
{
	const struct sockaddr_in guest = {
		.sin_family = AF_INET, .sin_addr = {htonl(NET_GUEST)}, .sin_port = htons(port)};
	struct sockaddr_un name;
	const socklen_t len = forward_name(port, &name);

	/* libslirp cannot take back one of these: a port that comes again is there already. */
	if (slirp_add_hostxfwd(st->slirp, (struct sockaddr *)&name, len,
			       (const struct sockaddr *)&guest, sizeof(guest), 0) < 0 &&
	    errno != EADDRINUSE)
		return errno ? -errno : -EIO;
	return 0;
}

int stack_connect(uint16_t port)
{
	struct sockaddr_un name;
	const socklen_t len = forward_name(port, &name);
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&name, len) < 0)
		return -errno;
	return steal_fd(&fd);
}

static int on_slirp_add_poll(int fd, int events, void *data)
{
	struct stack *st = data;
	const int ours = (events & SLIRP_POLL_IN ? POLLIN : 0) |
			 (events & SLIRP_POLL_OUT ? POLLOUT : 0) |
			 (events & SLIRP_POLL_PRI ? POLLPRI : 0);

	return pollset_add(st->set, fd, (short)ours);
}

static int on_slirp_get_revents(int place, void *data)
{
	const struct stack *st = data;
	const int events = pollset_events(st->set, place);

	return (events & POLLIN ? SLIRP_POLL_IN : 0) | (events & POLLOUT ? SLIRP_POLL_OUT : 0) |
	       (events & POLLPRI ? SLIRP_POLL_PRI : 0) | (events & POLLERR ? SLIRP_POLL_ERR : 0) |
	       (events & POLLHUP ? SLIRP_POLL_HUP : 0);
}

void stack_prepare(struct stack *st, struct pollset *set, int *timeout_ms)
{
	uint32_t timeout = *timeout_ms < 0 ? UINT32_MAX : (uint32_t)*timeout_ms;

	st->set = set;
	slirp_pollfds_fill(st->slirp, &timeout, on_slirp_add_poll, st);
	*timeout_ms = timeout > INT32_MAX ? -1 : (int)timeout;
}

void stack_run(struct stack *st, struct pollset *set, bool failed)
{
	st->set = set;
	slirp_pollfds_poll(st->slirp, failed, on_slirp_get_revents, st);
}
