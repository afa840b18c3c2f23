/* SPDX-License-Identifier: Apache-2.0 */
/* Reads from a pipe or socket on the loop, as data arrives. */
#include "reader.h"

#include <errno.h>
#include <fcntl.h>

#include "lent.h"
#include "util.h"

#define READ_SIZE    16384
#define READ_ROUNDS  4 /* in one turn of the loop: others want theirs too */
#define DRAIN_ROUNDS 16

static void ended(struct reader *r)
{
	r->ended = true;
	uv_poll_stop(&r->poll);
	if (r->end)
		r->end(r);
}

static void read_rounds(struct reader *r, unsigned rounds)
{
	char bytes[READ_SIZE];

	while (rounds-- && r->open && !r->ended) {
		ssize_t n = read(r->fd, bytes, sizeof(bytes));

		if (n > 0)
			r->bytes(r, bytes, (size_t)n);
		else if (n < 0 && errno == EINTR)
			continue;
		else if (n < 0 && errno == EAGAIN)
			break;
		else
			ended(r);
	}
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
	struct reader *r = handle->data;

	(void)events;
	/* After an error nothing more comes, but what came before it is still there. */
	read_rounds(r, status < 0 ? DRAIN_ROUNDS : READ_ROUNDS);
	if (status < 0 && r->open && !r->ended)
		ended(r);
}

int reader_open(struct reader *r, uv_loop_t *loop, int fd)
{
	int err;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	r->fd = fd;
	r->poll.data = r;
	err = uv_poll_init(loop, &r->poll, fd);
	if (err < 0) {
		lent_close(&fd);
		return err;
	}
	r->open = true;
	return uv_poll_start(&r->poll, UV_READABLE, on_readable);
}

void reader_drain(struct reader *r)
{
	read_rounds(r, DRAIN_ROUNDS);
}

static void on_closed(uv_handle_t *handle)
{
	struct reader *r = handle->data;

	r->closed(r);
}

void reader_close(struct reader *r)
{
	if (!r->open)
		return;
	r->open = false;
	uv_close((uv_handle_t *)&r->poll, on_closed);
	lent_close(&r->fd);
}
