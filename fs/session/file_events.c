/* SPDX-License-Identifier: Apache-2.0 */
/* What changes below files/. See file_events.h. */
#include "file_events.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "fs.h"
#include "quota.h"
#include "session.h"

#define QUOTA_STEP (16u << 10) /* bytes after which it is asked again whether there may be more */

static const char *const kinds[PROTO_NCHANGES] = {
	[PROTO_CHANGE_CREATED] = "created",   [PROTO_CHANGE_MODIFIED] = "modified",
	[PROTO_CHANGE_WRITTEN] = "written",   [PROTO_CHANGE_ATTRIBUTES] = "attributes",
	[PROTO_CHANGE_DELETED] = "deleted",   [PROTO_CHANGE_RENAMED] = "renamed",
	[PROTO_CHANGE_OVERFLOW] = "overflow", [PROTO_CHANGE_WATCHING] = "watching",
	[PROTO_CHANGE_FAILED] = "failed",
};

/* ---- lines ---- */

/* Adds a path; one that is no UTF-8, which JSON can't hold, by the hexadecimal digits of its bytes. */
static void put_path(json_t *o, const char *key, struct proto_str path)
{
	json_t *text = path.len ? json_stringn(path.data, path.len) : json_string("");
	char name[16], *digits;

	if (text) {
		json_object_set_new(o, key, text);
		return;
	}
	digits = malloc(2 * (size_t)path.len + 1);
	if (!digits)
		return;
	for (uint32_t i = 0; i < path.len; i++)
		snprintf(digits + 2 * (size_t)i, 3, "%02x", (uint8_t)path.data[i]);
	snprintf(name, sizeof(name), "%s_hex", key);
	json_object_set_new(o, name, json_string(digits));
	free(digits);
}

/* Return: a line, or NULL if out of memory. */
static char *line_of(uint64_t seq, const struct sandbox_change *c)
{
	const struct timespec now = clock_now();
	json_t *o =
		json_pack("{s:I, s:f, s:s}", "seq", (json_int_t)seq, "time",
			  (double)now.tv_sec + (double)now.tv_nsec / 1e9, "kind", kinds[c->kind]);
	const bool is_path = c->kind != PROTO_CHANGE_FAILED;
	char *text;

	if (!o)
		return NULL;
	put_path(o, is_path ? "path" : "reason", c->path);
	if (c->from.len)
		put_path(o, c->kind == PROTO_CHANGE_RENAMED ? "from" : "reason", c->from);
	if (is_path && c->is_dir)
		json_object_set_new(o, "dir", json_true());
	text = json_dumps(o, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(REAL_DIGITS));
	json_decref(o);
	return text;
}

/* How much of the text was read. */
static size_t read_of(const struct handle *h)
{
	return h->expected > h->base ? MIN((size_t)(h->expected - h->base), h->text.len) : 0;
}

/* Drops all lines that were not read, but for the rest of one that was begun. */
static void drop(struct handle *h)
{
	const size_t done = read_of(h);
	const char *end = NULL;

	if (done && h->text.data[done - 1] != '\n')
		end = memchr(h->text.data + done, '\n', h->text.len - done);
	h->text.len = end ? (size_t)(end - h->text.data) + 1 : done;
}

static int append(struct handle *h, const char *line)
{
	const size_t len = strlen(line), old = h->text.len;
	int e = 0;

	if (old - read_of(h) + len + 1 > FILE_EVENTS_KEPT)
		return -ENOSPC;
	if (old / QUOTA_STEP != (old + len + 1) / QUOTA_STEP)
		e = quota_check(h->fs, h->s, QUOTA_STEP);
	if (e == 0)
		e = buf_append(&h->text, line, len);
	if (e == 0)
		e = buf_append(&h->text, "\n", 1);
	if (e < 0)
		h->text.len = old;
	return e;
}

/* Forgets what was read long ago. */
static void shrink(struct handle *h)
{
	const size_t done = read_of(h), n = done - MIN(done, (size_t)FILE_EVENTS_READ);

	/* Not for each read. */
	if (n < FILE_EVENTS_READ)
		return;
	memmove(h->text.data, h->text.data + n, h->text.len - n);
	h->text.len -= n;
	h->base += n;
}

const char *file_events_text(struct handle *h, uint64_t offset, size_t size, size_t *ret_n)
{
	size_t at;

	if (offset < h->base) { /* dropped */
		h->expected -= MIN(h->expected, h->base - offset);
		h->base = offset;
	} else if (offset > h->base + h->text.len) {
		h->expected += offset - h->base - h->text.len;
		h->base = offset - h->text.len;
	}
	at = (size_t)(offset - h->base);
	*ret_n = MIN(size, h->text.len - at);
	if (*ret_n == 0)
		return NULL;
	h->expected = MAX(h->expected, offset + *ret_n);
	return h->text.data + at;
}

uint64_t file_events_size(const struct session *s)
{
	const struct handle *h = TAILQ_FIRST(&s->file_events.readers);

	if (!h)
		return 0;
	/* With 0 tail(1) reads to an end before it shows anything; the first line is on its way. */
	return MAX(h->base + h->text.len, (uint64_t)1);
}

static void tell_one(struct handle *h, const struct sandbox_change *c)
{
	static const struct sandbox_change overflow = {.kind = PROTO_CHANGE_OVERFLOW,
						       .is_dir = true};
	struct file_events *fe = &h->s->file_events;
	char *line = line_of(fe->seq, c);

	if (!line || append(h, line) < 0) {
		free(line);
		line = line_of(fe->seq, &overflow);
		drop(h);
		/* Without memory even for that, reading fails. */
		if (!line || append(h, line) < 0)
			h->failed = -ENOMEM;
	}
	free(line);
	if (c->kind == PROTO_CHANGE_FAILED && !h->failed)
		h->failed = -EIO;
}

/* One who is not watching yet has only to know what he never will see. */
static bool concerns(const struct handle *h, const struct sandbox_change *c)
{
	if (c->kind == PROTO_CHANGE_WATCHING)
		return !h->bound;
	if (c->kind == PROTO_CHANGE_OVERFLOW)
		return h->bound || c->path.len || c->from.len;
	return h->bound || c->kind == PROTO_CHANGE_FAILED;
}

static void tell(struct session *s, const struct sandbox_change *c)
{
	struct file_events *fe = &s->file_events;
	struct handle *h;

	TAILQ_FOREACH(h, &fe->readers, input_link) {
		if (!concerns(h, c))
			continue;
		tell_one(h, c);
		h->bound = h->bound || c->kind == PROTO_CHANGE_WATCHING;
	}
	fe->seq++;
	wait_wake(&fe->wait);
	TAILQ_FOREACH(h, &fe->readers, input_link)
		shrink(h);
}

/* ---- who watches ---- */

static void fail(struct session *s, const char *why)
{
	const struct sandbox_change failed = {.kind = PROTO_CHANGE_FAILED,
					      .path = {why, (uint32_t)strlen(why)}};

	s->file_events.state = FILE_EVENTS_FAILED;
	tell(s, &failed);
}

static void ask(struct session *s)
{
	if (sandbox_watch(s->sandbox, true) < 0)
		fail(s, strerror(ENOMEM));
	else
		s->file_events.state = FILE_EVENTS_ASKED;
}

void file_events_open(struct handle *h)
{
	static const struct sandbox_change watching = {.kind = PROTO_CHANGE_WATCHING,
						       .is_dir = true};
	struct session *s = h->s;
	struct file_events *fe = &s->file_events;

	TAILQ_INSERT_TAIL(&fe->readers, h, input_link);
	if (s->ready && (fe->state == FILE_EVENTS_OFF || fe->state == FILE_EVENTS_FAILED))
		ask(s); /* what has failed may be possible now */
	if (s->ready && fe->state != FILE_EVENTS_ON)
		return;
	tell_one(h, &watching);
	h->bound = true;
	fe->seq++;
}

void file_events_close(struct handle *h)
{
	struct session *s = h->s;
	struct file_events *fe = &s->file_events;

	TAILQ_REMOVE(&fe->readers, h, input_link);
	if (!TAILQ_EMPTY(&fe->readers) || fe->state == FILE_EVENTS_OFF)
		return;
	fe->state = FILE_EVENTS_OFF;
	if (s->sandbox)
		(void)sandbox_watch(s->sandbox, false);
}

void file_events_ready(struct session *s)
{
	if (!TAILQ_EMPTY(&s->file_events.readers))
		ask(s);
}

void file_events_gone(struct session *s)
{
	static const char why[] = "the sandbox is gone, and its files";
	struct file_events *fe = &s->file_events;
	const struct sandbox_change gone = {
		.kind = PROTO_CHANGE_OVERFLOW, .is_dir = true, .from = {why, sizeof(why) - 1}};
	static const struct sandbox_change watching = {.kind = PROTO_CHANGE_WATCHING,
						       .is_dir = true};

	if (fe->state == FILE_EVENTS_OFF)
		return;
	fe->state = FILE_EVENTS_OFF;
	tell(s, &gone);
	tell(s, &watching);
}

void file_events_changed(struct session *s, const struct sandbox_change *c)
{
	struct file_events *fe = &s->file_events;

	if (fe->state == FILE_EVENTS_OFF)
		return;
	if (c->kind == PROTO_CHANGE_WATCHING)
		fe->state = FILE_EVENTS_ON;
	if (c->kind == PROTO_CHANGE_FAILED)
		fe->state = FILE_EVENTS_FAILED;
	tell(s, c);
}
