/* SPDX-License-Identifier: Apache-2.0 */
/* The `events` nodes: the event log, or what of it concerns a session, as a file that keeps growing. */
#include "nodes.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "fs/request/reply.h"
#include "fs/session/fs.h"
#include "fs/session/session.h"

/*
 * Offset 0 of an open is the start of the oldest line that was kept at that time, at `base`; the end grows. `cursor`
 * and `text` are what is read next, at offset `expected`; a read at another offset searches for its line. A reader
 * too slow for the ring continues with the oldest line that is left, as if it followed what it has read.
 *
 * Of a session's node, offsets count the lines that concern it, from the first that was kept when it was opened (`base` is 0
 * then): what the ring drops meanwhile shifts only what is read at an offset again.
 *
 * The size shown is that of the oldest open, so that it does not shrink for anybody who follows the file.
 */
static int events_open(struct handle *h)
{
	struct events *ev = &h->fs->events;

	h->waitlist = h->s ? &h->s->events_wait : &ev->wait;
	ev->readers++;
	events_write(ev);
	h->cursor = events_first(ev);
	h->base = h->s ? 0 : events_first_byte(ev);
	return 0;
}

static void events_release(struct handle *h)
{
	h->fs->events.readers--;
}

/* Goes to @offset of this open, or to the oldest line if that was dropped, or to the end if it is beyond. */
static void seek(const struct events *ev, struct handle *h, uint64_t offset)
{
	const uint64_t at = h->base + offset;
	uint64_t pos = h->s ? 0 : events_first_byte(ev);

	buf_clear(&h->text);
	handle_rewrite(h, 0);
	h->expected = offset;
	h->cursor = events_first(ev);
	if (at < pos)
		h->base = pos - offset;
	for (; h->cursor < ev->next; h->cursor++) {
		const char *line = events_line(ev, h->cursor);
		const size_t len = strlen(line);

		if (!events_concern(ev, h->cursor, h->s))
			continue;
		if (pos + len > at) {
			const size_t skip = at > pos ? (size_t)(at - pos) : 0;

			if (skip && buf_append(&h->text, line + skip, len - skip) == 0)
				h->cursor++;
			return;
		}
		pos += len;
	}
}

static void fill(const struct events *ev, struct handle *h, size_t size)
{
	if (h->cursor < events_first(ev)) {
		h->cursor = events_first(ev);
		if (!h->s)
			h->base = events_first_byte(ev) - h->expected - h->text.len;
	}
	while (h->cursor < ev->next && h->text.len < size) {
		const char *line = events_line(ev, h->cursor);

		if (events_concern(ev, h->cursor, h->s) &&
		    buf_append(&h->text, line, strlen(line)) < 0)
			return;
		h->cursor++;
	}
}

void events_await(struct handle *h, struct req *req, size_t size, uint64_t offset, bool nonblock)
{
	const uint64_t now = uv_now(h->fs->loop);

	if (nonblock) {
		reply_err(req, -EAGAIN);
	} else if (h->deadline && now >= h->deadline) {
		h->deadline = 0;
		reply_buf(req, "", 0);
	} else {
		if (!h->deadline) {
			h->deadline = now + EVENTS_IDLE_S * 1000;
			alarm_set(&h->fs->alarm, h->deadline);
		}
		wait_park(h, req, size, offset);
	}
}

static void events_read(struct handle *h, struct req *req, size_t size, uint64_t offset,
			bool nonblock)
{
	struct fs *fs = h->fs;
	size_t n;

	if (offset != h->expected)
		seek(&fs->events, h, offset);
	fill(&fs->events, h, size);
	n = MIN(size, h->text.len);
	if (n) {
		h->deadline = 0;
		reply_buf(req, h->text.data, n);
		memmove(h->text.data, h->text.data + n, h->text.len - n);
		h->text.len -= n;
		handle_rewrite(h, 0);
		h->expected += n;
	} else if (h->s && h->s->dead) {
		reply_buf(req, "", 0); /* there will be no more */
	} else {
		events_await(h, req, size, offset, nonblock);
	}
}

static unsigned events_poll(struct handle *h)
{
	struct events *ev = &h->fs->events;

	for (uint64_t n = MAX(h->cursor, events_first(ev)); n < ev->next; n++) {
		if (events_concern(ev, n, h->s))
			return POLLIN | POLLRDNORM;
	}
	return h->text.len || (h->s && h->s->dead) ? POLLIN | POLLRDNORM : 0;
}

const struct handle_ops events_ops = {
	.open = events_open,
	.read = events_read,
	.poll = events_poll,
	.release = events_release,
};

uint64_t events_size(struct fs *fs, const struct handle *h)
{
	struct events *ev = &fs->events;
	const struct handle *o;
	uint64_t first;

	events_write(ev);
	if (h)
		return ev->bytes - h->base;
	first = events_first_byte(ev);
	TAILQ_FOREACH(o, &fs->handles.open, link)
		if (o->ops == &events_ops && !o->s)
			first = MIN(first, o->base);
	return ev->bytes - first;
}

uint64_t events_size_of(const struct session *s)
{
	struct events *ev = &s->fs->events;
	uint64_t n = 0;

	events_write(ev);
	for (uint64_t i = events_first(ev); i < ev->next; i++)
		if (events_concern(ev, i, s))
			n += strlen(events_line(ev, i));
	return n;
}
