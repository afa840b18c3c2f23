/* SPDX-License-Identifier: Apache-2.0 */
/* The event log: JSON Lines of everything that happens. */
#include "events.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/request/clock.h"
#include "fs.h"
#include "run.h"
#include "session.h"

struct event {
	char *line; /* as it is read; NULL: not yet, or there was no memory for it */
	bool made;  /* it was made at once, and can't be made of what follows */
	struct timespec time;
	const char *session; /* NULL: none; what follows is in `text` as well */
	const char *kind, *words;
	/* Of a run, which has no kind: */
	uint32_t run;
	enum run_state state;
	bool ended, has_status;
	uint32_t status;
	uint64_t wall_us;
	char text[];
};

void events_init(struct events *ev)
{
	*ev = (struct events){.mtime = clock_now()};
	waitlist_init(&ev->wait);
}

static void event_free(struct event *e)
{
	if (e)
		free(e->line);
	free(e);
}

void events_fini(struct events *ev)
{
	for (unsigned i = 0; i < EVENTS_KEPT; i++)
		event_free(ev->kept[i]);
}

uint64_t events_first(const struct events *ev)
{
	return ev->next > EVENTS_KEPT ? ev->next - EVENTS_KEPT : 0;
}

bool events_concern(const struct events *ev, uint64_t n, const struct session *s)
{
	const struct event *e = ev->kept[n % EVENTS_KEPT];

	/* There may have been another one of that name. */
	return !s || (n >= s->first_event && e->session && strcmp(e->session, s->path) == 0);
}

/* ---- lines ---- */

/* Takes over @o. Return: the line, NULL if out of memory. */
static char *line_of(const struct event *e, json_t *o)
{
	const double time = (double)e->time.tv_sec + (double)e->time.tv_nsec / 1e9;
	_cleanup_free_ char *text = NULL;
	char *line;

	json_object_set_new(o, "time", json_real(time));
	if (e->session)
		json_object_set_new(o, "session", json_string(e->session));
	text = json_dumps(o, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(REAL_DIGITS));
	json_decref(o);
	return text && asprintf(&line, "%s\n", text) >= 0 ? line : NULL;
}

static json_t *words_object(const struct event *e)
{
	return json_pack("{s:s, s:o*}", "event", e->kind,
			 strcmp(e->kind, "session") ? "words" : "state", json_string(e->words));
}

static json_t *run_object(const struct event *e)
{
	return json_pack("{s:s, s:o, s:s, s:o*, s:o*}", "event", e->words ? "job" : "run",
			 e->words ? "job" : "run",
			 e->words ? json_string(e->words) : json_integer(e->run), "state",
			 run_state_str(e->state), "exit_code",
			 e->has_status ? json_integer(e->status) : NULL, "wall_ms",
			 e->ended ? json_real((double)e->wall_us / 1000) : NULL);
}

static void write_line(struct event *e)
{
	if (!e->line)
		e->line = line_of(e, e->kind ? words_object(e) : run_object(e));
}

void events_write(struct events *ev)
{
	for (ev->written = MAX(ev->written, events_first(ev)); ev->written < ev->next;
	     ev->written++) {
		write_line(ev->kept[ev->written % EVENTS_KEPT]);
		ev->bytes += strlen(events_line(ev, ev->written));
	}
}

const char *events_line(const struct events *ev, uint64_t n)
{
	const struct event *e = ev->kept[n % EVENTS_KEPT];

	return e->line ? e->line : "";
}

uint64_t events_first_byte(const struct events *ev)
{
	uint64_t n = ev->bytes;

	for (uint64_t i = events_first(ev); i < ev->next; i++)
		n -= strlen(events_line(ev, i));
	return n;
}

/* ---- events ---- */

/* Puts a copy of @text at *@at, and goes behind it. Return: the copy, or NULL for NULL. */
static const char *copy(char **at, const char *text)
{
	const char *start = *at;

	if (!text)
		return NULL;
	*at = stpcpy(*at, text) + 1;
	return start;
}

static size_t size_of(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

/* Return: an event with copies of these strings, which may be NULL; NULL if out of memory. */
static struct event *event_of(const char *session, const char *kind, const char *words)
{
	struct event *e = calloc(1, sizeof(*e) + size_of(session) + size_of(kind) + size_of(words));
	char *at;

	if (!e)
		return NULL;
	at = e->text;
	e->session = copy(&at, session);
	e->kind = copy(&at, kind);
	e->words = copy(&at, words);
	return e;
}

static struct event *event_new(const struct session *s, const char *kind, const char *words)
{
	struct event *e = event_of(s ? s->path : NULL, kind, words);

	if (e)
		e->time = clock_now();
	return e;
}

/* Takes over @e, which is about @s or nobody. */
static void add(struct events *ev, struct session *s, struct event *e)
{
	struct event **slot = &ev->kept[ev->next % EVENTS_KEPT];

	event_free(*slot);
	*slot = e;
	ev->next++;
	ev->mtime = e->time;
	if (ev->readers)
		events_write(ev);
	wait_wake(&ev->wait);
	if (s)
		wait_wake(&s->events_wait);
}

void events_add(struct events *ev, struct session *s, const char *kind, const char *words)
{
	struct event *e = event_new(s, kind, words);

	if (e)
		add(ev, s, e);
	audit_event(container_of(ev, struct fs, events), s, kind, words);
	if (s)
		keeping_changed(s);
}

void events_add_run(struct events *ev, struct session *s, const struct run *r)
{
	struct event *e = event_new(s, NULL, *r->job ? r->job : NULL);

	keeping_changed(s);
	if (!e)
		return;
	e->run = r->number;
	e->state = r->state;
	e->ended = run_ended(r);
	e->wall_us = r->result.wall_us;
	e->has_status = run_has_status(r);
	e->status = r->result.status;
	add(ev, s, e);
}

void events_add_denied(struct events *ev, struct session *s, const struct sandbox_denied *what,
		       unsigned unreported)
{
	struct event *e = event_new(s, "denied", NULL);

	if (!e)
		return;
	e->line = line_of(e, json_pack("{s:s, s:o*, s:o*, s:o*, s:o*}", "event", "denied", "name",
				       json_string(what->name), "port",
				       what->port ? json_integer(what->port) : json_null(),
				       "reason", json_string(what->reason), "unreported",
				       unreported ? json_integer(unreported) : NULL));
	e->made = true;
	if (e->line)
		add(ev, s, e);
	else
		event_free(e);
}

json_t *events_lines(const char *text)
{
	json_t *o = json_array();

	while (o && *text) {
		const size_t n = strcspn(text, "\n");

		json_array_append_new(o, json_stringn(text, n));
		text += n + (text[n] == '\n');
	}
	return o;
}

void events_add_question(struct events *ev, struct session *s, const char *kind,
			 const struct question *q, const char *what, unsigned unreported)
{
	const bool open = q->state == QUESTION_OPEN;
	struct event *e = event_new(s, kind, NULL);

	if (!e)
		return;
	e->line = line_of(
		e,
		json_pack("{s:s, s:i, s:o*, s:o, s:o*, s:o*, s:o*, s:o*}", "event", kind, "number",
			  (int)q->number, "what", json_string(what), "who", events_lines(q->who),
			  "until", open ? json_real((double)q->until_ms / 1000) : NULL, "state",
			  open ? NULL
			       : json_string(q->state == QUESTION_ALLOWED ? "allowed" : "denied"),
			  "decided", open || !q->decided ? NULL : json_string(q->decided),
			  "unreported", unreported ? json_integer(unreported) : NULL));
	e->made = true;
	if (e->line)
		add(ev, s, e);
	else
		event_free(e);
}

/* ---- for the next daemon ---- */

/* Never reuse. */
enum events_tag {
	TAG_NEXT = 1,
	TAG_BYTES,
	TAG_MTIME,
	TAG_WRITTEN,
};

/* Never reuse. */
enum event_tag {
	TAG_LINE = 1,
	TAG_SESSION,
	TAG_NUMBER,
	TAG_TIME,
	TAG_KIND, /* of all but runs */
	TAG_WORDS,
	TAG_RUN,
	TAG_STATE,
	TAG_WALL, /* it has ended */
	TAG_STATUS,
};

#define TEXT_MAX (64u << 10) /* of an event */

void events_put(const struct events *ev, struct buf *out)
{
	record_u64(out, TAG_NEXT, ev->next);
	record_u64(out, TAG_BYTES, ev->bytes);
	record_time(out, TAG_MTIME, &ev->mtime);
	record_u64(out, TAG_WRITTEN, MAX(ev->written, events_first(ev)));
}

/* A line is written down only if it can't be made again. */
void events_put_one(const struct events *ev, uint64_t n, struct buf *out)
{
	const struct event *e = ev->kept[n % EVENTS_KEPT];

	record_u64(out, TAG_NUMBER, n);
	record_time(out, TAG_TIME, &e->time);
	record_str(out, TAG_SESSION, e->session);
	if (e->made)
		record_str(out, TAG_LINE, e->line);
	record_str(out, TAG_KIND, e->kind);
	record_str(out, TAG_WORDS, e->words);
	if (e->kind)
		return;
	record_u64(out, TAG_RUN, e->run);
	record_u64(out, TAG_STATE, e->state);
	if (e->ended)
		record_u64(out, TAG_WALL, e->wall_us);
	if (e->has_status)
		record_u64(out, TAG_STATUS, e->status);
}

int events_get(struct events *ev, struct record_reader fields)
{
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		switch ((enum events_tag)f.tag) {
		case TAG_NEXT: r = record_get(&f, 0, UINT64_MAX / 2, &ev->next); break;
		case TAG_BYTES: r = record_get(&f, 0, UINT64_MAX, &ev->bytes); break;
		case TAG_MTIME: r = record_get_time(&f, &ev->mtime); break;
		case TAG_WRITTEN: r = record_get(&f, 0, UINT64_MAX / 2, &ev->written); break;
		default: break;
		}
		if (r < 0)
			return r;
	}
	if (r == 0 && (ev->written > ev->next || ev->written < events_first(ev)))
		return -EBADMSG;
	return r;
}

/* What a record says, before there is an event of that size. */
struct event_in {
	uint64_t number;
	char *session, *kind, *words, *line;
	struct event e; /* last, for its text, of which there is none here */
};

static void event_in_clear(struct event_in *in)
{
	free(in->session);
	free(in->kind);
	free(in->words);
	free(in->line);
}

/* Return: 0, -EBADMSG, -ENOMEM. */
static int get_text(const struct record_field *f, char **ret_text)
{
	_cleanup_free_ char *text = NULL;
	int r;

	if (*ret_text || !f->is_bytes || f->len > TEXT_MAX)
		return -EBADMSG;
	text = malloc(f->len + 1);
	if (!text)
		return -ENOMEM;
	r = record_get_str(f, text, f->len + 1);
	if (r == 0)
		*ret_text = steal_ptr(text);
	return r;
}

static int get_field(struct event_in *in, const struct record_field *f)
{
	struct event *e = &in->e;
	uint64_t v = 0;
	int r;

	switch ((enum event_tag)f->tag) {
	case TAG_LINE: return get_text(f, &in->line);
	case TAG_SESSION: return get_text(f, &in->session);
	case TAG_NUMBER: return record_get(f, 0, UINT64_MAX / 2, &in->number);
	case TAG_TIME: return record_get_time(f, &e->time);
	case TAG_KIND: return get_text(f, &in->kind);
	case TAG_WORDS: return get_text(f, &in->words);
	case TAG_RUN: return record_get_u32(f, UINT32_MAX, &e->run);
	case TAG_STATE:
		r = record_get(f, 0, RUN_NSTATES - 1, &v);
		e->state = (enum run_state)v;
		return r;
	case TAG_WALL: e->ended = true; return record_get(f, 0, UINT64_MAX, &e->wall_us);
	case TAG_STATUS: e->has_status = true; return record_get_u32(f, UINT32_MAX, &e->status);
	default: return 0;
	}
}

/* Takes over the line. Return: the event, NULL if out of memory. */
static struct event *make(struct event_in *in)
{
	struct event *e = event_of(in->session, in->kind, in->words);

	if (!e)
		return NULL;
	e->time = in->e.time;
	e->run = in->e.run;
	e->state = in->e.state;
	e->ended = in->e.ended;
	e->wall_us = in->e.wall_us;
	e->has_status = in->e.has_status;
	e->status = in->e.status;
	e->made = in->line;
	e->line = steal_ptr(in->line);
	return e;
}

/* Return: 0, -EBADMSG, -ENOMEM. */
static int take(struct events *ev, struct event_in *in)
{
	struct event **slot = &ev->kept[in->number % EVENTS_KEPT];

	/* A line stands for what has a kind. */
	if (in->number >= ev->next || in->number < events_first(ev) || *slot ||
	    (in->line && !in->kind))
		return -EBADMSG;
	*slot = make(in);
	return *slot ? 0 : -ENOMEM;
}

int events_get_one(struct events *ev, struct record_reader fields)
{
	struct event_in in = {0};
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		r = get_field(&in, &f);
		if (r < 0)
			break;
	}
	if (r == 0)
		r = take(ev, &in);
	event_in_clear(&in);
	return r;
}

int events_join(struct events *ev)
{
	uint64_t bytes = 0;

	for (uint64_t n = events_first(ev); n < ev->next; n++) {
		struct event *e = ev->kept[n % EVENTS_KEPT];

		if (!e)
			return -EBADMSG;
		if (n >= ev->written)
			continue;
		write_line(e);
		bytes += strlen(events_line(ev, n));
	}
	/* One that there was no memory for may have become a line now. */
	ev->bytes = MAX(ev->bytes, bytes);
	return 0;
}
