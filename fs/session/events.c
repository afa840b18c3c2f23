/* SPDX-License-Identifier: Apache-2.0 */
/* The `events` node: JSON Lines of everything that happens. */
#include "events.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "fs/mount.h"
#include "fs/request/reply.h"
#include "session.h"
#include "fs/tree/status.h"

void events_init(struct events *ev, struct fs *fs)
{
	*ev = (struct events){.fs = fs, .mtime = fs_now()};
	waitlist_init(&ev->wait);
}

void events_fini(struct events *ev)
{
	for (unsigned i = 0; i < EVENTS_KEPT; i++)
		free(ev->line[i]);
}

static uint64_t first_kept(const struct events *ev)
{
	return ev->next > EVENTS_KEPT ? ev->next - EVENTS_KEPT : 0;
}

/* Takes over @o. A line that cannot be made for want of memory is left out. */
static void add(struct events *ev, const struct session *s, json_t *o)
{
	struct timespec now = fs_now();
	char path[160], **slot = &ev->line[ev->next % EVENTS_KEPT];
	_cleanup_free_ char *text = NULL;
	char *line;

	json_object_set_new(o, "time", json_real((double)now.tv_sec + (double)now.tv_nsec / 1e9));
	if (s) {
		snprintf(path, sizeof(path), "%s/%s", s->t->name, s->name);
		json_object_set_new(o, "session", json_string(path));
	}
	text = json_dumps(o, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(REAL_DIGITS));
	json_decref(o);
	if (!text || asprintf(&line, "%s\n", text) < 0)
		return;
	free(*slot);
	*slot = line;
	ev->next++;
	ev->bytes += strlen(line);
	ev->mtime = now;
	wait_wake(ev->fs, &ev->wait);
}

void events_add(struct events *ev, const struct session *s, const char *kind, const char *words)
{
	json_t *o = json_object();

	json_object_set_new(o, "event", json_string(kind));
	json_object_set_new(o, strcmp(kind, "session") ? "words" : "state", json_string(words));
	add(ev, s, o);
}

void events_add_run(struct events *ev, const struct session *s, const struct run *r)
{
	json_t *o = json_object();

	json_object_set_new(o, "event", json_string("run"));
	json_object_set_new(o, "run", json_integer(r->number));
	json_object_set_new(o, "state", json_string(run_state_str(r->state)));
	if (run_has_status(r))
		json_object_set_new(o, "exit_code", json_integer(r->result.status));
	if (run_ended(r))
		json_object_set_new(o, "wall_ms", json_real((double)r->result.wall_us / 1000));
	add(ev, s, o);
}

void events_add_denied(struct events *ev, const struct session *s,
		       const struct sandbox_denied *what, unsigned unreported)
{
	json_t *o = json_object();

	json_object_set_new(o, "event", json_string("denied"));
	json_object_set_new(o, "name", json_string(what->name));
	json_object_set_new(o, "port", what->port ? json_integer(what->port) : json_null());
	json_object_set_new(o, "reason", json_string(what->reason));
	if (unreported)
		json_object_set_new(o, "unreported", json_integer(unreported));
	add(ev, s, o);
}

/* Where the oldest line that is kept begins, counted from the first byte ever. */
static uint64_t first_byte(const struct events *ev)
{
	uint64_t n = ev->bytes;

	for (uint64_t i = first_kept(ev); i < ev->next; i++)
		n -= strlen(ev->line[i % EVENTS_KEPT]);
	return n;
}

uint64_t events_size(const struct events *ev, const struct handle *h)
{
	uint64_t first = first_byte(ev);
	const struct handle *o;

	if (h)
		return ev->bytes - h->base;
	TAILQ_FOREACH(o, &ev->fs->handles.open, link)
		if (o->ops == &events_ops)
			first = MIN(first, o->base);
	return ev->bytes - first;
}

/* ---- the node ---- */

/*
 * For each open, offset 0 is where the oldest line began that was kept then, at `base`, and the end moves on. `cursor`
 * and `text` say what is read next, at offset `expected`; a read elsewhere looks for its place. A reader
 * too slow for the ring goes on with the oldest line there still is, whose offsets move to where it is.
 *
 * The size that all see is counted from the oldest open, so that nobody's gets smaller while he follows.
 */
static int events_open(struct fs *fs, struct handle *h, const struct node *n)
{
	(void)n;
	h->cursor = first_kept(&fs->events);
	h->base = first_byte(&fs->events);
	return 0;
}

/* Goes to @offset of this open: behind what was dropped, and before what is not there yet. */
static void seek(const struct events *ev, struct handle *h, uint64_t offset)
{
	const uint64_t at = h->base + offset;
	uint64_t pos = first_byte(ev);

	buf_clear(&h->text);
	h->expected = offset;
	h->cursor = first_kept(ev);
	if (at < pos)
		h->base = pos - offset;
	for (; h->cursor < ev->next; h->cursor++) {
		const char *line = ev->line[h->cursor % EVENTS_KEPT];
		const size_t len = strlen(line);

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
	if (h->cursor < first_kept(ev)) {
		h->cursor = first_kept(ev);
		h->base = first_byte(ev) - h->expected - h->text.len;
	}
	while (h->cursor < ev->next && h->text.len < size) {
		const char *line = ev->line[h->cursor % EVENTS_KEPT];

		if (buf_append(&h->text, line, strlen(line)) < 0)
			return;
		h->cursor++;
	}
}

static void events_read(struct fs *fs, struct handle *h, struct req *req, size_t size,
			uint64_t offset, bool nonblock)
{
	uint64_t now = uv_now(fs->loop);
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
		h->expected += n;
	} else if (nonblock) {
		reply_err(req, -EAGAIN);
	} else if (h->deadline && now >= h->deadline) {
		h->deadline = 0;
		reply_buf(req, "", 0);
	} else {
		if (!h->deadline) {
			h->deadline = now + EVENTS_IDLE_S * 1000;
			fs_alarm(fs, h->deadline);
		}
		wait_park(fs, h, req, size, offset);
	}
}

static unsigned events_poll(struct fs *fs, struct handle *h)
{
	return h->text.len || h->cursor < fs->events.next ? POLLIN | POLLRDNORM : 0;
}

static struct waitlist *events_waits(struct fs *fs, struct handle *h)
{
	(void)h;
	return &fs->events.wait;
}

uint64_t events_tick(struct events *ev, uint64_t now)
{
	uint64_t next = UINT64_MAX;
	bool expired = false;
	struct waiter *w;

	TAILQ_FOREACH(w, &ev->wait.waiters, link) {
		if (w->h->deadline <= now)
			expired = true;
		else
			next = MIN(next, w->h->deadline);
	}
	if (expired)
		wait_wake(ev->fs, &ev->wait);
	return next;
}

const struct handle_ops events_ops = {
	.open = events_open,
	.read = events_read,
	.poll = events_poll,
	.waits = events_waits,
};
