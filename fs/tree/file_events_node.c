/* SPDX-License-Identifier: Apache-2.0 */
/* The `files.events` node: what changes below files/ while it is open, as JSON Lines. */
#include "nodes.h"

#include <errno.h>
#include <poll.h>

#include "fs/request/reply.h"
#include "fs/session/fs.h"
#include "fs/session/session.h"

static int file_events_node_open(struct handle *h)
{
	h->waitlist = &h->s->file_events.wait;
	file_events_open(h);
	return 0;
}

static void file_events_read(struct handle *h, struct req *req, size_t size, uint64_t offset,
			     bool nonblock)
{
	size_t n;
	const char *text = file_events_text(h, offset, size, &n);

	if (text) {
		h->deadline = 0;
		reply_buf(req, text, n);
	} else if (h->failed) {
		reply_err(req, h->failed);
	} else if (h->s->dead || h->cached || !size) {
		reply_buf(req, "", 0);
	} else {
		events_await(h, req, size, offset, nonblock);
	}
}

static unsigned file_events_poll(struct handle *h)
{
	return file_events_unread(h) || h->failed || h->s->dead ? POLLIN | POLLRDNORM : 0;
}

const struct handle_ops file_events_ops = {
	.open = file_events_node_open,
	.read = file_events_read,
	.poll = file_events_poll,
	.release = file_events_close,
};

uint64_t file_events_node_size(const struct node *n)
{
	return file_events_size(n->s, n->ino);
}
