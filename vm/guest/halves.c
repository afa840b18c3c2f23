/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets with half a record in them. See halves.h. */
#include "halves.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#define ROUNDS 64 /* in one turn of the loop: others want theirs too */

/* One at a time: what is called may end any of the others. */
static void on_poll(uv_poll_t *poll, int status, int events)
{
	const struct halves *h = poll->data;
	struct epoll_event e;

	(void)status;
	(void)events;
	for (unsigned i = 0; i < ROUNDS && epoll_wait(h->fd, &e, 1, 0) == 1; i++) {
		struct half *x = e.data.ptr;

		x->more(x);
	}
}

static int halves_open(struct halves *h, uv_loop_t *loop)
{
	int r;

	h->fd = epoll_create1(EPOLL_CLOEXEC);
	if (h->fd < 0)
		return -errno;
	h->poll.data = h;
	r = uv_poll_init(loop, &h->poll, h->fd);
	if (r < 0) {
		close(h->fd);
		return r;
	}
	h->open = true;
	return uv_poll_start(&h->poll, UV_READABLE, on_poll);
}

int halves_add(struct halves *h, uv_loop_t *loop, struct half *x, int fd)
{
	struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = x};
	int r = h->open ? 0 : halves_open(h, loop);

	if (r < 0)
		return r;
	if (epoll_ctl(h->fd, x->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &e) < 0)
		return -errno;
	x->watched = true;
	return 0;
}

void halves_remove(struct halves *h, struct half *x, int fd)
{
	if (x->watched)
		epoll_ctl(h->fd, EPOLL_CTL_DEL, fd, NULL);
	x->watched = false;
}

static void on_closed(uv_handle_t *handle)
{
	struct halves *h = handle->data;

	close(h->fd);
	h->closed(h->data);
}

bool halves_close(struct halves *h, void (*closed)(void *data), void *data)
{
	if (!h->open)
		return false;
	h->open = false;
	h->closed = closed;
	h->data = data;
	uv_close((uv_handle_t *)&h->poll, on_closed);
	return true;
}
