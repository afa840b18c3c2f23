/* SPDX-License-Identifier: Apache-2.0 */
/* Packets with descriptors, in both directions over a SOCK_SEQPACKET socket, on the loop. */
#include "packets.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "fdpass.h"
#include "lent.h"
#include "util.h"

#define QUEUE_MAX 1024 /* packets that wait because the other end does not read */
#define READS	  32   /* in one turn of the loop */
#define RETRY_MS  20   /* when the kernel has no memory for one */

struct packet {
	STAILQ_ENTRY(packet) link;
	int fd; /* to be closed when sent, or -1 */
	size_t len;
	char bytes[];
};

static void on_poll(uv_poll_t *poll, int status, int events);

static int write_packet(const struct packets *p, const struct packet *m)
{
	ssize_t n = fdpass_send(p->fd, m->bytes, m->len, &m->fd, m->fd >= 0 ? 1 : 0, MSG_DONTWAIT);

	/* So many of the user's are on their way, in all his processes. The other end may have no room for one,
	 * either, and looks whether it has come. */
	if (n == -ETOOMANYREFS)
		n = fdpass_send(p->fd, m->bytes, m->len, NULL, 0, MSG_DONTWAIT);
	return n < 0 ? (int)n : 0;
}

static void drop_first(struct packets *p)
{
	struct packet *m = STAILQ_FIRST(&p->queue);

	STAILQ_REMOVE_HEAD(&p->queue, link);
	p->queued--;
	p->due -= p->due > 0;
	if (m->fd >= 0)
		close(m->fd);
	free(m);
}

static void watch(struct packets *p)
{
	const bool writes = p->due && !uv_is_active((uv_handle_t *)&p->retry);

	uv_poll_start(&p->poll, UV_READABLE | (writes ? UV_WRITABLE : 0), on_poll);
}

int packets_send(struct packets *p, const void *head, size_t head_len, const void *tail,
		 size_t tail_len, int fd)
{
	const int err = !p->open || p->over ? -EPIPE : p->queued >= QUEUE_MAX ? -ENOBUFS : 0;
	struct packet *m = err ? NULL : malloc(sizeof(*m) + head_len + tail_len);

	if (!m) {
		if (fd >= 0)
			close(fd);
		return err ? err : -ENOMEM;
	}
	m->fd = fd;
	m->len = head_len + tail_len;
	memcpy(m->bytes, head, head_len);
	if (tail_len)
		memcpy(m->bytes + head_len, tail, tail_len);
	STAILQ_INSERT_TAIL(&p->queue, m, link);
	p->queued++;
	if (p->later && p->later(p, PACKETS_SAY))
		return 0;
	p->due = p->queued;
	/* An error is reported from the loop, where it is tried again. */
	if (p->due == 1 && write_packet(p, m) == 0)
		drop_first(p);
	else
		watch(p);
	return 0;
}

static void on_retry(uv_timer_t *timer)
{
	watch(container_of(timer, struct packets, retry));
}

/* Return: 0, also if there is no room for more, or -errno of a packet that can't be sent. */
static int flush(struct packets *p)
{
	while (p->due) {
		const int r = write_packet(p, STAILQ_FIRST(&p->queue));

		if (r == -ENOBUFS || r == -ENOMEM) {
			/* The socket has room, and would say so at once. */
			uv_timer_start(&p->retry, on_retry, RETRY_MS, 0);
			break;
		}
		if (r < 0)
			return r == -EAGAIN ? 0 : r;
		drop_first(p);
	}
	watch(p);
	return 0;
}

static void end(struct packets *p, int err)
{
	p->over = true;
	uv_poll_stop(&p->poll);
	uv_timer_stop(&p->retry);
	while (p->queued)
		drop_first(p);
	p->ended(p, err);
}

void packets_say(struct packets *p)
{
	if (!p->open || p->over)
		return;
	p->due = p->queued;
	/* What can't be sent is tried again by the loop, and reported from there. */
	(void)flush(p);
	watch(p);
}

void packets_take_out(struct packets *p)
{
	char byte;

	/* It is there, and the first. */
	if (p->peeked && p->open && !p->over)
		(void)!recv(p->fd, &byte, 1, MSG_DONTWAIT);
	p->peeked = false;
}

/* A packet as it comes. Return: its length, or as fdpass_receive(). */
static ssize_t receive(struct packets *p, char bytes[PACKETS_SIZE_MAX], int *ret_fd)
{
	const int flags = MSG_DONTWAIT | (p->later ? MSG_PEEK : 0);
	size_t nfds;
	/* Where none may come, none is received that would have to be closed. */
	const ssize_t n =
		p->takes_fds
			? fdpass_receive(p->fd, bytes, PACKETS_SIZE_MAX, ret_fd, 1, &nfds, flags)
			: fdpass_receive(p->fd, bytes, PACKETS_SIZE_MAX, NULL, 0, &nfds, flags);

	if (nfds == 0)
		*ret_fd = -1; /* if it failed, one may have come and been closed again */
	return n;
}

/* Return: 0, -EAGAIN if there is none, or -errno. */
static int take_one(struct packets *p)
{
	char bytes[PACKETS_SIZE_MAX] __attribute__((aligned(8)));
	_cleanup_close_ int fd = -1;
	const ssize_t n = receive(p, bytes, &fd);

	if (n <= 0)
		return n == 0 ? -EPIPE : n == -EINTR ? -EAGAIN : (int)n;
	p->peeked = p->later;
	if (p->peeked && !p->later(p, PACKETS_TAKE_OUT))
		packets_take_out(p);
	return p->packet(p, bytes, (size_t)n, &fd);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct packets *p = container_of(poll, struct packets, poll);
	int r = 0, sent = 0;

	if (status < 0) {
		end(p, status);
		return;
	}
	if (events & UV_WRITABLE)
		sent = flush(p);
	for (unsigned i = 0; i < READS && r == 0 && p->open && !p->peeked; i++)
		r = take_one(p);
	/* What the other end has said is heard first. A packet that can't be sent would be tried again at
	 * once, for ever; and without it, the other end does not know what those after it are about. */
	if (r == -EAGAIN && sent < 0)
		r = sent;
	if (r < 0 && r != -EAGAIN && p->open)
		end(p, r);
}

int packets_open(struct packets *p, uv_loop_t *loop, int fd)
{
	int r = uv_poll_init(loop, &p->poll, fd);

	if (r < 0)
		return r;
	uv_timer_init(loop, &p->retry);
	p->fd = fd;
	p->open = true;
	p->over = false;
	p->queued = p->due = 0;
	p->peeked = false;
	assert(!p->later || !p->takes_fds);
	STAILQ_INIT(&p->queue);
	watch(p);
	return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct packets *p = container_of((uv_timer_t *)handle, struct packets, retry);

	lent_close(&p->fd);
	p->closed(p);
}

static void on_poll_closed(uv_handle_t *handle)
{
	struct packets *p = container_of((uv_poll_t *)handle, struct packets, poll);

	uv_close((uv_handle_t *)&p->retry, on_timer_closed);
}

void packets_close(struct packets *p)
{
	if (!p->open)
		return;
	p->open = false;
	while (p->queued)
		drop_first(p);
	uv_timer_stop(&p->retry);
	uv_close((uv_handle_t *)&p->poll, on_poll_closed);
}
