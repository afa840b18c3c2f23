/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's end of a sandbox's network: it resolves names and connects, for xsbxfs-net. */
#include "gateway.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "fdpass.h"
#include "gateway_internal.h"
#include "net/reason.h"
#include "util.h"

/*
 * Theory of operation
 * -------------------
 * The helper asks for a connection by name, or by address where the list names addresses. It is not
 * trusted to ask only for what is allowed: its list and ours are the same text, and ours counts.
 * dial.c resolves and connects; what it has is passed to the helper as a descriptor, and the bytes
 * never come through the daemon.
 *
 * What is sent waits in a queue while the socket is full. A helper that reads nothing while it asks
 * for more is not waited for: there are only so many requests that can be open, and answers.
 */

#define QUEUE_MAX 1024

struct message {
	STAILQ_ENTRY(message) link;
	int fd; /* to be closed when sent, or -1 */
	size_t len;
	char bytes[];
};

static void on_control(uv_poll_t *poll, int status, int events);

static void end(struct gateway *gw, int err)
{
	if (gw->ended)
		return;
	gw->ended = true;
	uv_poll_stop(&gw->poll);
	gw->events->ended(gw->data, err);
}

/* Return: 0, or -errno, with -EAGAIN if the socket is full. */
static int write_message(int control, const void *bytes, size_t len, int fd)
{
	return (int)MIN(fdpass_send(control, bytes, len, &fd, fd >= 0, MSG_DONTWAIT), 0);
}

static void drop_first(struct gateway *gw)
{
	struct message *m = STAILQ_FIRST(&gw->queue);

	STAILQ_REMOVE_HEAD(&gw->queue, link);
	gw->queued--;
	if (m->fd >= 0)
		close(m->fd);
	free(m);
}

static void watch(struct gateway *gw)
{
	uv_poll_start(&gw->poll, UV_READABLE | (gw->queued ? UV_WRITABLE : 0), on_control);
}

int gateway_send(struct gateway *gw, const void *head, size_t head_len, const void *tail,
		 size_t tail_len, int fd)
{
	struct message *m = gw->ended || gw->queued >= QUEUE_MAX
				    ? NULL
				    : malloc(sizeof(*m) + head_len + tail_len);

	if (!m) {
		if (fd >= 0)
			close(fd);
		return gw->ended ? -EPIPE : -ENOBUFS;
	}
	m->fd = fd;
	m->len = head_len + tail_len;
	memcpy(m->bytes, head, head_len);
	if (tail_len)
		memcpy(m->bytes + head_len, tail, tail_len);
	STAILQ_INSERT_TAIL(&gw->queue, m, link);
	/* An error in writing is one in reading soon, and reported from there. */
	if (++gw->queued == 1 && write_message(gw->control, m->bytes, m->len, fd) == 0)
		drop_first(gw);
	else
		watch(gw);
	return 0;
}

static void flush(struct gateway *gw)
{
	while (gw->queued) {
		const struct message *m = STAILQ_FIRST(&gw->queue);

		if (write_message(gw->control, m->bytes, m->len, m->fd) < 0)
			return;
		drop_first(gw);
	}
	watch(gw);
}

static bool is_text(const char *text, size_t size)
{
	const size_t len = strnlen(text, size);

	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] >= 0x7f)
			return false;
	return len > 0 && len < size;
}

/* One message from the helper. Return: 0 or -EPROTO. */
static int obey(struct gateway *gw, const union gateway_message *m, size_t len)
{
	switch (len < sizeof(m->header) ? 0 : m->header.type) {
	case NET_READY:
		if (len != sizeof(m->header))
			return -EPROTO;
		gw->events->ready(gw->data);
		return 0;
	case NET_DIAL:
		if (len != sizeof(m->dial) || !is_text(m->dial.name, sizeof(m->dial.name)))
			return -EPROTO;
		return dial_begin(gw, &m->dial);
	case NET_HANG_UP:
		if (len != sizeof(m->header))
			return -EPROTO;
		dial_hang_up(gw, m->header.id);
		return 0;
	case NET_DENIED:
		if (len != sizeof(m->denied) || m->denied.reason >= NET_NREASONS ||
		    !is_text(m->denied.name, sizeof(m->denied.name)))
			return -EPROTO;
		gw->events->denied(gw->data, &m->denied);
		return 0;
	case NET_STATS:
		if (len != sizeof(m->stats))
			return -EPROTO;
		gw->events->stats(gw->data, &m->stats);
		return 0;
	default: return -EPROTO;
	}
}

#define READS 32 /* in one turn of the loop */

static void on_control(uv_poll_t *poll, int status, int events)
{
	struct gateway *gw = container_of(poll, struct gateway, poll);
	union gateway_message m;
	int r = 0;

	if (status < 0) {
		end(gw, status);
		return;
	}
	if (events & UV_WRITABLE)
		flush(gw);
	for (unsigned i = 0; i < READS && r == 0 && !gw->ended; i++) {
		/* The helper sends no descriptors; without room for them there are none. */
		const ssize_t n = recv(gw->control, &m, sizeof(m), MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		r = n < 0 ? -errno : n == 0 ? -EPIPE : obey(gw, &m, (size_t)n);
	}
	if (r < 0)
		end(gw, r);
}

int gateway_new(uv_loop_t *loop, int control, const struct gateway_config *cfg,
		struct gateway **ret_gateway)
{
	struct gateway *gw = calloc(1, sizeof(*gw));
	int r;

	if (!gw)
		return -ENOMEM;
	gw->loop = loop;
	gw->control = control;
	gw->events = cfg->events;
	gw->data = cfg->data;
	gw->resolve = cfg->resolve;
	STAILQ_INIT(&gw->queue);
	TAILQ_INIT(&gw->dials);
	r = uv_poll_init(loop, &gw->poll, control);
	if (r < 0) {
		free(gw);
		return r;
	}
	gw->handles = 1;
	watch(gw);
	*ret_gateway = gw;
	return 0;
}

int gateway_allow(struct gateway *gw, const char *text, size_t len,
		  char ret_why[static GATEWAY_WHY_MAX])
{
	const struct net_header h = {.type = NET_ALLOW};
	struct allow list;
	int r;

	r = allow_parse(text, len, &list, ret_why);
	if (r < 0)
		return r;
	r = gateway_send(gw, &h, sizeof(h), text, len, -1);
	if (r < 0) {
		allow_fini(&list);
		return r;
	}
	allow_fini(&gw->allow);
	gw->allow = list;
	dial_recheck(gw);
	return 0;
}

/* A listening socket on the loopback device, for connections to this machine only. */
static int listen_at(uint16_t port, uint16_t *ret_port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET,
				  .sin_addr = {htonl(INADDR_LOOPBACK)},
				  .sin_port = htons(port)};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = sizeof(sin);
	const int on = 1;

	if (fd < 0)
		return -errno;
	/* Old connections of an earlier session must not keep its port. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&sin, sizeof(sin)) < 0 || listen(fd, SOMAXCONN) < 0 ||
	    getsockname(fd, (struct sockaddr *)&sin, &len) < 0)
		return -errno;
	*ret_port = ntohs(sin.sin_port);
	return steal_fd(&fd);
}

int gateway_forward(struct gateway *gw, uint16_t guest, uint16_t host, uint16_t *ret_host,
		    char ret_why[static GATEWAY_WHY_MAX])
{
	const struct net_header h = {NET_FORWARD, guest};
	uint16_t port = 0;
	int fd, r;

	for (unsigned i = 0; i < gw->nforwards; i++) {
		if (gw->forwards[i] != guest)
			continue;
		snprintf(ret_why, GATEWAY_WHY_MAX, "port %u is forwarded already", guest);
		return -EEXIST;
	}
	if (gw->nforwards == NET_FORWARDS_MAX || guest == 0) {
		snprintf(ret_why, GATEWAY_WHY_MAX, "at most %d ports can be forwarded",
			 NET_FORWARDS_MAX);
		return guest ? -ENOSPC : -EINVAL;
	}
	fd = listen_at(host, &port);
	if (fd < 0) {
		snprintf(ret_why, GATEWAY_WHY_MAX, "port %u of this machine: %s", host,
			 fd == -EADDRINUSE ? "somebody uses it" : strerror(-fd));
		return fd;
	}
	r = gateway_send(gw, &h, sizeof(h), NULL, 0, fd);
	if (r < 0) {
		snprintf(ret_why, GATEWAY_WHY_MAX, "the network helper has ended");
		return r;
	}
	gw->forwards[gw->nforwards++] = guest;
	*ret_host = port;
	return 0;
}

int gateway_unforward(struct gateway *gw, uint16_t guest)
{
	const struct net_header h = {NET_UNFORWARD, guest};

	for (unsigned i = 0; i < gw->nforwards; i++) {
		if (gw->forwards[i] != guest)
			continue;
		gw->forwards[i] = gw->forwards[--gw->nforwards];
		return gateway_send(gw, &h, sizeof(h), NULL, 0, -1);
	}
	return -ENOENT;
}

int gateway_ask_stats(struct gateway *gw)
{
	const struct net_header h = {.type = NET_ASK_STATS};

	return gateway_send(gw, &h, sizeof(h), NULL, 0, -1);
}

void gateway_unref(struct gateway *gw)
{
	if (--gw->handles)
		return;
	if (gw->closed)
		gw->closed(gw->closed_data);
	free(gw);
}

static void on_poll_closed(uv_handle_t *handle)
{
	struct gateway *gw = container_of((uv_poll_t *)handle, struct gateway, poll);

	close(gw->control);
	gateway_unref(gw);
}

void gateway_close(struct gateway *gw, void (*closed)(void *data), void *data)
{
	gw->ended = true;
	gw->closed = closed;
	gw->closed_data = data;
	dial_end_all(gw);
	while (gw->queued)
		drop_first(gw);
	allow_fini(&gw->allow);
	uv_close((uv_handle_t *)&gw->poll, on_poll_closed);
}
