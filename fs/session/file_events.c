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

/* Adds a line. Return: 0, or -ENOMEM and nothing was added. */
static int put_line(struct buf *b, uint64_t seq, const struct sandbox_change *c)
{
	const struct timespec now = clock_now();
	const size_t old = b->len;
	json_t *o =
		json_pack("{s:I, s:f, s:s}", "seq", (json_int_t)seq, "time",
			  (double)now.tv_sec + (double)now.tv_nsec / 1e9, "kind", kinds[c->kind]);
	const bool is_path = c->kind != PROTO_CHANGE_FAILED;
	char *text;
	int e;

	if (!o)
		return -ENOMEM;
	put_path(o, is_path ? "path" : "reason", c->path);
	if (c->from.len)
		put_path(o, c->kind == PROTO_CHANGE_RENAMED ? "from" : "reason", c->from);
	if (is_path && c->is_dir)
		json_object_set_new(o, "dir", json_true());
	text = json_dumps(o, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(REAL_DIGITS));
	json_decref(o);
	if (!text)
		return -ENOMEM;
	e = buf_append(b, text, strlen(text));
	if (e == 0)
		e = buf_append(b, "\n", 1);
	if (e < 0)
		b->len = old;
	free(text);
	return e < 0 ? -ENOMEM : 0;
}

/* ---- what one reader has before him ---- */

static uint64_t log_end(const struct file_events *fe)
{
	return fe->start + fe->log.len;
}

static uint64_t end_of(const struct handle *h)
{
	const struct file_events *fe = &h->s->file_events;

	return h->base + h->text.len + (h->bound ? log_end(fe) - h->cursor : 0);
}

/* How much of it was read. */
static uint64_t read_of(const struct handle *h)
{
	return h->expected > h->base ? MIN(h->expected, end_of(h)) - h->base : 0;
}

/* The place in the log from which on he has read nothing. */
static uint64_t place_of(const struct handle *h)
{
	const uint64_t done = read_of(h);

	return h->cursor + (done > h->text.len ? done - h->text.len : 0);
}

/* Does he wait for the line that says it is watching? */
static bool is_new(const struct handle *h)
{
	return !h->bound && h->failed != -ENOMEM;
}

/* He was not told something, for there was no memory: reading fails. */
static void give_up(struct handle *h)
{
	struct file_events *fe = &h->s->file_events;

	if (h->bound)
		fe->nbound--;
	else if (is_new(h))
		fe->nnew--;
	h->bound = false;
	h->failed = -ENOMEM;
	handle_touch(h);
}

static int own_add(struct handle *h, const char *bytes, size_t len)
{
	struct file_events *fe = &h->s->file_events;

	if (fe->own + len > FILE_EVENTS_OWN || buf_append(&h->text, bytes, len) < 0)
		return -ENOMEM;
	fe->own += len;
	handle_touch(h);
	return 0;
}

static void own_cut(struct handle *h, size_t len)
{
	h->s->file_events.own -= h->text.len - len;
	handle_rewrite(h, len);
	h->text.len = len;
	if (!len)
		buf_clear(&h->text);
}

/* Drops all lines of his own that were not read, but for the rest of one that was begun. */
static void drop_own(struct handle *h, size_t done)
{
	const char *end = NULL;

	if (done && h->text.data[done - 1] != '\n')
		end = memchr(h->text.data + done, '\n', h->text.len - done);
	own_cut(h, end ? (size_t)(end - h->text.data) + 1 : done);
}

/* The same of those in the log. What he has read of it can't be read again. */
static int drop_shared(struct handle *h, uint64_t done)
{
	const struct buf *log = &h->s->file_events.log;
	const size_t at = (size_t)(place_of(h) - h->s->file_events.start);
	const char *rest = log->data + at, *end;

	h->base += done;
	own_cut(h, 0); /* touches it */
	if (rest[-1] == '\n')
		return 0;
	/* With the byte before, by which it is known as the rest of a line that was begun. */
	end = memchr(rest, '\n', log->len - at);
	h->base--;
	return own_add(h, rest - 1, (size_t)(end - rest) + 2);
}

/* What is in the log, and was not read, is lost to him: he goes on at its end, and @overflow tells him so. */
static void lose(struct handle *h, const struct buf *overflow)
{
	const uint64_t done = read_of(h);
	int e = 0;

	if (done > h->text.len)
		e = drop_shared(h, done);
	else
		drop_own(h, (size_t)done);
	h->cursor = log_end(&h->s->file_events);
	handle_touch(h);
	if (e < 0 || !overflow->len || own_add(h, overflow->data, overflow->len) < 0)
		give_up(h);
}

/* ---- reading ---- */

const char *file_events_text(struct handle *h, uint64_t offset, size_t size, size_t *ret_n)
{
	const struct file_events *fe = &h->s->file_events;
	const struct buf *b = &h->text;
	uint64_t at, end;

	if (offset == 1 && !h->expected &&
	    !h->base) /* who was told of one byte, see file_events_size() */
		h->expected = h->base = 1;
	end = end_of(h);
	if (offset < h->base) { /* dropped */
		h->expected -= MIN(h->expected, h->base - offset);
		h->base = offset;
	} else if (offset > end) {
		h->expected += offset - end;
		h->base += offset - end;
	}
	at = offset - h->base;
	if (at >= h->text.len && h->bound) {
		at += h->cursor - fe->start - h->text.len;
		b = &fe->log;
	}
	*ret_n = (size_t)MIN((uint64_t)size, b->len - at);
	if (*ret_n == 0)
		return NULL;
	h->expected = MAX(h->expected, offset + *ret_n);
	return b->data + at;
}

bool file_events_unread(const struct handle *h)
{
	return h->expected < end_of(h);
}

uint64_t file_events_size(const struct session *s, uint64_t ino)
{
	const struct handle *h;

	TAILQ_FOREACH(h, &s->file_events.readers, input_link) {
		/* With 0 tail(1) reads to an end before it shows anything; the first line is on its way. */
		if (h->ino == ino)
			return MAX(end_of(h), (uint64_t)1);
	}
	return 0;
}

/* ---- telling ---- */

static const struct sandbox_change overflow = {.kind = PROTO_CHANGE_OVERFLOW, .is_dir = true};
static const struct sandbox_change watching = {.kind = PROTO_CHANGE_WATCHING, .is_dir = true};

/* Drops the log before @start. Those who have not read so far lose all of it; @all: everybody does. */
static void cut(struct file_events *fe, uint64_t start, bool all)
{
	const size_t n = (size_t)(start - fe->start);
	struct buf line = {0};
	struct handle *h;

	(void)put_line(&line, fe->seq++, &overflow);
	TAILQ_FOREACH(h, &fe->readers, input_link) {
		if (!h->bound)
			continue;
		if (all || place_of(h) < start) {
			lose(h, &line);
		} else if (h->cursor < start) {
			h->base += h->text.len + start - h->cursor;
			own_cut(h, 0); /* touches it */
			h->cursor = start;
		}
	}
	if (n)
		memmove(fe->log.data, fe->log.data + n, fe->log.len - n);
	fe->log.len -= n;
	fe->start = start;
	buf_clear(&line);
}

/* So that the log has room for a line, of which some are long. */
static void make_room(struct file_events *fe)
{
	const char *from, *end;

	if (fe->log.len < FILE_EVENTS_KEPT + FILE_EVENTS_MORE)
		return;
	from = fe->log.data + fe->log.len - FILE_EVENTS_KEPT;
	end = memchr(from, '\n', FILE_EVENTS_KEPT);
	cut(fe, fe->start + (uint64_t)(end + 1 - fe->log.data), false);
}

/* May the log be so long? Asked only where it is longer than ever, for all that the owner has is summed up then. */
static int check_quota(struct session *s)
{
	struct file_events *fe = &s->file_events;
	int e;

	if (fe->log.len < fe->granted + QUOTA_STEP)
		return 0;
	e = quota_check(s->fs, s, QUOTA_STEP);
	if (e == 0)
		fe->granted += QUOTA_STEP;
	return e;
}

/* Tells those who are watching. What it takes does not depend on how many they are, unless they wait for it. */
static void tell(struct session *s, const struct sandbox_change *c)
{
	struct file_events *fe = &s->file_events;

	if (!fe->nbound)
		return;
	make_room(fe);
	if (check_quota(s) < 0 || put_line(&fe->log, fe->seq, c) < 0)
		cut(fe, log_end(fe), true);
	else
		fe->seq++;
	wait_wake(&fe->wait);
}

/* One who is not watching yet has only to know what he never will see, and will be told when he is. */
static void tell_blind(struct file_events *fe, const struct sandbox_change *c)
{
	if (!fe->nnew || fe->blind_lost)
		return;
	if (fe->blind.len < FILE_EVENTS_BLIND && put_line(&fe->blind, fe->seq, c) == 0) {
		fe->seq++;
		return;
	}
	buf_clear(&fe->blind);
	fe->blind_lost = true;
}

/* From here on he is told, by a line of his own. @before: another */
static void join(struct handle *h, const struct buf *before, const struct buf *line)
{
	struct file_events *fe = &h->s->file_events;

	if (!line->len || own_add(h, before->data, before->len) < 0 ||
	    own_add(h, line->data, line->len) < 0) {
		give_up(h);
		return;
	}
	fe->nnew--;
	fe->nbound++;
	h->bound = true;
	h->cursor = log_end(fe);
	handle_touch(h);
}

static void bind_all(struct file_events *fe)
{
	struct buf line = {0};
	struct handle *h;

	if (!fe->nnew)
		return;
	if (fe->own + fe->nnew * fe->blind.len > FILE_EVENTS_OWN / 2)
		fe->blind_lost = true;
	if (fe->blind_lost) {
		buf_clear(&fe->blind);
		(void)put_line(&fe->blind, fe->seq++, &overflow);
	}
	(void)put_line(&line, fe->seq++, &watching);
	TAILQ_FOREACH(h, &fe->readers, input_link)
		if (is_new(h))
			join(h, &fe->blind, &line);
	buf_clear(&line);
	buf_clear(&fe->blind);
	fe->blind_lost = false;
	wait_wake(&fe->wait);
}

/* Tells everybody, and there is no more. */
static void tell_failed(struct session *s, const struct sandbox_change *c)
{
	struct file_events *fe = &s->file_events;
	struct buf line = {0};
	struct handle *h;

	fe->state = FILE_EVENTS_FAILED;
	tell(s, c);
	(void)put_line(&line, fe->seq++, c);
	TAILQ_FOREACH(h, &fe->readers, input_link) {
		if (is_new(h) && (!line.len || own_add(h, line.data, line.len) < 0))
			give_up(h);
		if (!h->failed)
			h->failed = -EIO;
		handle_touch(h);
	}
	buf_clear(&line);
	wait_wake(&fe->wait);
}

/* ---- who watches ---- */

static void ask(struct session *s)
{
	const char *why = strerror(ENOMEM);
	const struct sandbox_change failed = {.kind = PROTO_CHANGE_FAILED,
					      .path = {why, (uint32_t)strlen(why)}};

	if (sandbox_watch(s->sandbox, true) < 0)
		tell_failed(s, &failed);
	else
		s->file_events.state = FILE_EVENTS_ASKED;
}

void file_events_open(struct handle *h)
{
	static const struct buf nothing = {0};
	struct session *s = h->s;
	struct file_events *fe = &s->file_events;
	struct buf line = {0};

	TAILQ_INSERT_TAIL(&fe->readers, h, input_link);
	fe->nnew++;
	if (s->ready && (fe->state == FILE_EVENTS_OFF || fe->state == FILE_EVENTS_FAILED))
		ask(s); /* what has failed may be possible now */
	if (s->ready && fe->state != FILE_EVENTS_ON)
		return;
	(void)put_line(&line, fe->seq++, &watching);
	join(h, &nothing, &line);
	buf_clear(&line);
}

void file_events_close(struct handle *h)
{
	struct session *s = h->s;
	struct file_events *fe = &s->file_events;

	TAILQ_REMOVE(&fe->readers, h, input_link);
	own_cut(h, 0);
	if (h->bound)
		fe->nbound--;
	else if (is_new(h))
		fe->nnew--;
	if (!TAILQ_EMPTY(&fe->readers))
		return;
	trail_changed(&fe->trail);
	buf_clear(&fe->log);
	buf_clear(&fe->blind);
	fe->blind_lost = false;
	fe->granted = 0;
	if (fe->state == FILE_EVENTS_OFF)
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

/* All of files/ is to be looked at again, because of @why. */
static void tell_anew(struct session *s, const char *why)
{
	struct file_events *fe = &s->file_events;
	const struct sandbox_change gone = {
		.kind = PROTO_CHANGE_OVERFLOW, .is_dir = true, .from = {why, strlen(why)}};

	tell(s, &gone);
	tell_blind(fe, &gone);
	bind_all(fe);
}

void file_events_gone(struct session *s)
{
	if (s->file_events.state == FILE_EVENTS_OFF)
		return;
	s->file_events.state = FILE_EVENTS_OFF;
	tell_anew(s, "the sandbox has ended; files/ has what is left");
}

void file_events_anew(struct session *s)
{
	tell_anew(s, "the session was asleep, and what it goes on with is another");
}

void file_events_changed(struct session *s, const struct sandbox_change *c)
{
	struct file_events *fe = &s->file_events;

	/* Else nothing is expected. */
	if (fe->state != FILE_EVENTS_ASKED && fe->state != FILE_EVENTS_ON)
		return;
	if (c->kind == PROTO_CHANGE_WATCHING) {
		fe->state = FILE_EVENTS_ON;
		bind_all(fe);
		return;
	}
	if (c->kind == PROTO_CHANGE_FAILED) {
		tell_failed(s, c);
		return;
	}
	if (c->kind == PROTO_CHANGE_OVERFLOW && (c->path.len || c->from.len))
		tell_blind(fe, c);
	tell(s, c);
}
