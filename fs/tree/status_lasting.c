/* SPDX-License-Identifier: Apache-2.0 */
/* status.json of a session, as far as it lasts: what is saved of it, whose copy it is, and who its copies are. */
#include <string.h>

#include "fs/session/flaws.h"
#include "fs/session/fs.h"
#include "fs/session/session.h"
#include "json.h"

json_t *status_flaws(const struct saved *saved)
{
	const struct flaws words = flaws_of_files(saved);

	return *words.text ? json_string(words.text) : json_null();
}

static json_t *asleep_json(const struct session *s)
{
	const struct saved *saved = s->asleep.saved;

	if (s->state != SESSION_ASLEEP)
		return json_null();
	return json_pack("{s:o, s:b, s:I, s:I, s:b, s:o}", "since",
			 status_seconds(&s->asleep.since), "saved", saved != NULL, "files_bytes",
			 (json_int_t)(saved ? saved_files_bytes(saved) : 0), "memory_bytes",
			 (json_int_t)(saved ? saved_memory_bytes(saved) : 0), "memory",
			 saved && saved_has_memory(saved), "flaws", status_flaws(saved));
}

/* How the last sandbox went on that began from something saved. */
static json_t *woken_json(const struct asleep *a)
{
	if (!a->woken)
		return json_null();
	return json_pack("{s:b, s:I, s:I, s:o}", "state_kept", a->kept, "asleep_ms",
			 (json_int_t)a->slept_ms, "took_ms", (json_int_t)a->took_ms, "lost",
			 a->lost ? status_string(a->lost) : json_null());
}

static json_t *parent_json(const struct origin *o)
{
	if (!*o->session)
		return json_null();
	return json_pack("{s:s, s:o, s:o}", "session", o->session, "checkpoint",
			 *o->checkpoint ? json_string(o->checkpoint) : json_null(), "time",
			 status_seconds(&o->time));
}

static json_t *children_json(const struct session *s)
{
	const struct session *copy;
	json_t *list = json_array();

	TAILQ_FOREACH(copy, &s->children, sibling)
		json_array_append_new(list, json_string(copy->path));
	return list;
}

/* The names of all, or of those that have failed. */
static json_t *checkpoints_json(const struct session *s, bool failed)
{
	const struct checkpoint *cp;
	json_t *names = json_array();

	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		if (!failed || checkpoint_is_lost(cp))
			json_array_append_new(names, json_string(cp->name));
	return names;
}

void status_lasting(const struct session *s, json_t *o)
{
	const struct asleep *a = &s->asleep;

	json_object_set_new(o, "saving", json_boolean(saving_wanted(s)));
	json_object_set_new(o, "asleep", asleep_json(s));
	json_object_set_new(o, "woken", woken_json(a));
	json_object_set_new(o, "state_kept", a->woken ? json_boolean(a->kept) : json_null());
	json_object_set_new(o, "checkpoints", checkpoints_json(s, false));
	json_object_set_new(o, "checkpoints_failed", checkpoints_json(s, true));
	json_object_set_new(o, "parent", parent_json(&s->origin));
	json_object_set_new(o, "children", children_json(s));
}
