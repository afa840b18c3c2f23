/* SPDX-License-Identifier: Apache-2.0 */
/* The event log: JSON Lines of everything that happens. */
#include "events.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "fs/request/clock.h"
#include "run.h"
#include "session.h"

struct event {
	char *line; /* as it is read; NULL: not yet, or there was no memory for it */
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

void events_write(struct events *ev)
{
	for (ev->written = MAX(ev->written, events_first(ev)); ev->written < ev->next;
	     ev->written++) {
		struct event *e = ev->kept[ev->written % EVENTS_KEPT];

		if (!e->line)
			e->line = line_of(e, e->kind ? words_object(e) : run_object(e));
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
static struct event *event_new(const struct session *s, const char *kind, const char *words)
{
	const char *path = s ? s->path : NULL;
	struct event *e = calloc(1, sizeof(*e) + size_of(path) + size_of(kind) + size_of(words));
	char *at;

	if (!e)
		return NULL;
	e->time = clock_now();
	at = e->text;
	e->session = copy(&at, path);
	e->kind = copy(&at, kind);
	e->words = copy(&at, words);
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
	TAG_EVENT, /* each that is kept, from the oldest on */
};

/* Never reuse. */
enum event_tag {
	TAG_LINE = 1,
	TAG_SESSION,
};

#define LINE_MAX_BYTES (64u << 10)

/* As lines, so that nothing else is needed of them. */
void events_put(struct events *ev, struct buf *out)
{
	events_write(ev);
	record_u64(out, TAG_NEXT, ev->next);
	record_u64(out, TAG_BYTES, ev->bytes);
	record_time(out, TAG_MTIME, &ev->mtime);
	for (uint64_t n = events_first(ev); n < ev->next; n++) {
		const size_t at = record_open(out, TAG_EVENT);

		record_str(out, TAG_LINE, events_line(ev, n));
		record_str(out, TAG_SESSION, ev->kept[n % EVENTS_KEPT]->session);
		record_close(out, at);
	}
}

/* Return: 0, -EBADMSG, -ENOMEM. */
static int get_event(struct record_reader fields, struct event **ret_e)
{
	_cleanup_free_ char *line = NULL;
	char session[136] = "", *at;
	struct record_field f;
	struct event *e;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		if (f.tag == TAG_SESSION && record_get_str(&f, session, sizeof(session)) < 0)
			return -EBADMSG;
		if (f.tag != TAG_LINE)
			continue;
		if (line || !f.is_bytes || f.len > LINE_MAX_BYTES)
			return -EBADMSG;
		line = malloc(f.len + 1);
		if (!line)
			return -ENOMEM;
		r = record_get_str(&f, line, f.len + 1);
		if (r < 0)
			return r;
	}
	e = r == 0 ? calloc(1, sizeof(*e) + sizeof(session)) : NULL;
	if (!e)
		return r < 0 ? r : -ENOMEM;
	at = e->text;
	e->session = *session ? copy(&at, session) : NULL;
	e->kind = "";
	e->line = steal_ptr(line);
	*ret_e = e;
	return 0;
}

int events_get(struct events *ev, struct record_reader fields)
{
	uint64_t n = 0, bytes = 0;
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		switch ((enum events_tag)f.tag) {
		case TAG_NEXT:
			r = n ? -EBADMSG : record_get(&f, 0, UINT64_MAX / 2, &ev->next);
			n = ev->written = events_first(ev);
			break;
		case TAG_BYTES: r = record_get(&f, 0, UINT64_MAX, &ev->bytes); break;
		case TAG_MTIME: r = record_get_time(&f, &ev->mtime); break;
		case TAG_EVENT:
			if (n >= ev->next || ev->kept[n % EVENTS_KEPT])
				return -EBADMSG;
			r = get_event(record_inside(&f), &ev->kept[n % EVENTS_KEPT]);
			if (r == 0)
				bytes += strlen(events_line(ev, n++));
			break;
		default: break;
		}
		if (r < 0)
			return r;
	}
	if (r < 0 || n != ev->next || bytes > ev->bytes)
		return -EBADMSG;
	ev->written = ev->next;
	return 0;
}
