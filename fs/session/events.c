/* SPDX-License-Identifier: Apache-2.0 */
/* The event log: JSON Lines of everything that happens. */
#include "events.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "fs/request/clock.h"
#include "run.h"
#include "session.h"

void events_init(struct events *ev)
{
	*ev = (struct events){.mtime = clock_now()};
	waitlist_init(&ev->wait);
}

void events_fini(struct events *ev)
{
	for (unsigned i = 0; i < EVENTS_KEPT; i++)
		free(ev->line[i]);
}

uint64_t events_first(const struct events *ev)
{
	return ev->next > EVENTS_KEPT ? ev->next - EVENTS_KEPT : 0;
}

/* Takes over @o. A line is dropped if out of memory. */
static void add(struct events *ev, const struct session *s, json_t *o)
{
	struct timespec now = clock_now();
	char **slot = &ev->line[ev->next % EVENTS_KEPT];
	_cleanup_free_ char *text = NULL;
	char *line;

	json_object_set_new(o, "time", json_real((double)now.tv_sec + (double)now.tv_nsec / 1e9));
	if (s)
		json_object_set_new(o, "session", json_string(s->path));
	text = json_dumps(o, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(REAL_DIGITS));
	json_decref(o);
	if (!text || asprintf(&line, "%s\n", text) < 0)
		return;
	free(*slot);
	*slot = line;
	ev->next++;
	ev->bytes += strlen(line);
	ev->mtime = now;
	wait_wake(&ev->wait);
}

void events_add(struct events *ev, const struct session *s, const char *kind, const char *words)
{
	add(ev, s,
	    json_pack("{s:s, s:o*}", "event", kind, strcmp(kind, "session") ? "words" : "state",
		      json_string(words)));
}

void events_add_run(struct events *ev, const struct session *s, const struct run *r)
{
	add(ev, s,
	    json_pack("{s:s, s:I, s:s, s:o*, s:o*}", "event", "run", "run", (json_int_t)r->number,
		      "state", run_state_str(r->state), "exit_code",
		      run_has_status(r) ? json_integer(r->result.status) : NULL, "wall_ms",
		      run_ended(r) ? json_real((double)r->result.wall_us / 1000) : NULL));
}

void events_add_denied(struct events *ev, const struct session *s,
		       const struct sandbox_denied *what, unsigned unreported)
{
	add(ev, s,
	    json_pack("{s:s, s:o*, s:o*, s:o*, s:o*}", "event", "denied", "name",
		      json_string(what->name), "port",
		      what->port ? json_integer(what->port) : json_null(), "reason",
		      json_string(what->reason), "unreported",
		      unreported ? json_integer(unreported) : NULL));
}

uint64_t events_first_byte(const struct events *ev)
{
	uint64_t n = ev->bytes;

	for (uint64_t i = events_first(ev); i < ev->next; i++)
		n -= strlen(ev->line[i % EVENTS_KEPT]);
	return n;
}
