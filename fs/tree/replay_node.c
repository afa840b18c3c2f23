/* SPDX-License-Identifier: Apache-2.0 */
/* runs/N/replay: what came of a replay, once it is over; see fs/session/rerun.h. */
#include "nodes.h"

#include <poll.h>

#include "fs/session/fs.h"
#include "fs/session/session.h"

/* The size is exact; of one that goes on nobody knows it yet. */
uint64_t replay_size(const struct node *n)
{
	struct buf text = {0};
	uint64_t len;

	if (n->r->rerun.going)
		return 0;
	(void)rerun_words(n->r, &text);
	len = text.len;
	buf_clear(&text);
	return len;
}

static int replay_open(struct handle *h)
{
	struct node n;
	const int e = node_resolve(h->fs, h->ino, &n);

	h->waitlist = &h->s->front.wait;
	h->stream = e == 0 && n.r->rerun.going;
	return e;
}

/* What is read once is what is read, also if somebody asks for another one meanwhile. */
static void replay_read(struct handle *h, struct req *req, size_t size, uint64_t offset,
			bool nonblock)
{
	struct node n;
	int e = 0;

	if (!h->text.len) {
		e = node_resolve(h->fs, h->ino, &n);
		if (e == 0 && n.r->rerun.going) {
			wait_or_refuse(h, req, size, offset, nonblock);
			return;
		}
		if (e == 0)
			e = rerun_words(n.r, &h->text);
		handle_touch(h);
	}
	if (e < 0)
		reply_err(req, e);
	else
		text_read(h, req, size, offset, nonblock);
}

static unsigned replay_poll(struct handle *h)
{
	struct node n;

	if (!h->text.len && node_resolve(h->fs, h->ino, &n) == 0 && n.r->rerun.going)
		return 0;
	return POLLIN | POLLRDNORM;
}

const struct handle_ops replay_ops = {
	.open = replay_open,
	.read = replay_read,
	.poll = replay_poll,
};
