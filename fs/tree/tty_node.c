/* SPDX-License-Identifier: Apache-2.0 */
/* The node `tty` of a job: its terminal, both ways. */
#include "nodes.h"

#include <errno.h>
#include <poll.h>

#include "fs/request/reply.h"
#include "fs/session/fs.h"
#include "fs/session/job.h"

/*
 * Reading gives what the terminal shows, which is the job's `stdout`; writing types, as to `stdin`. A descriptor that is
 * open for writing is one of a user at the terminal: it has no position, so that a read that waits keeps no write
 * from typing, and it waits for the job to be started. Who only looks on reads a file like `stdout`.
 *
 * Who types is bound to the run as its writer. Where that takes no input any more, because it has ended or was refused, he is
 * shown it all the same, and the end.
 */

static bool is_users(const struct handle *h)
{
	return handle_writes(h);
}

static int tty_open(struct handle *h)
{
	h->duplex = is_users(h);
	return is_users(h) ? stdin_ops.open(h) : stream_ops.open(h);
}

/* Is there something that he is shown, or will be? */
static bool bind_user(struct handle *h)
{
	if (!h->r && h->front->latest)
		front_bind(h, h->front->latest);
	return h->r != NULL;
}

static void tty_read(struct handle *h, struct req *req, size_t size, uint64_t offset, bool nonblock)
{
	if (!is_users(h) || bind_user(h))
		stream_ops.read(h, req, size, is_users(h) ? h->cursor : offset, nonblock);
	else if (front_is_gone(h->front))
		reply_err(req, -ESTALE);
	else if (nonblock)
		reply_err(req, -EAGAIN);
	else
		wait_park(h, req, size, offset);
}

static void tty_release(struct handle *h)
{
	if (is_users(h))
		stdin_ops.release(h);
}

static unsigned tty_poll(struct handle *h)
{
	unsigned in = 0;

	if (!is_users(h))
		return stream_ops.poll(h);
	if (bind_user(h))
		in = stream_ops.poll(h);
	else if (front_is_gone(h->front))
		in = POLLIN | POLLRDNORM;
	return in | stdin_ops.poll(h);
}

const struct handle_ops tty_ops = {
	.open = tty_open,
	.read = tty_read,
	.write_late = stdin_write,
	.truncate = truncate_handle,
	.release = tty_release,
	.poll = tty_poll,
};
