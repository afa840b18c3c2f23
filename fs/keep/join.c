/* SPDX-License-Identifier: Apache-2.0 */
/* When all sessions were read: what they know of each other, and what nobody holds. See keep.h. */
#include <search.h>
#include <string.h>

#include "fs/config/from.h"
#include "fs/session/fs.h"
#include "internal.h"
#include "vm/base/util.h"

/* The session that it began as a copy of, if that is the same one still. */
static void find_origin(struct session *s)
{
	struct origin *o = &s->origin, found;
	const struct session *source;
	struct problem why;
	struct from from;
	int template;

	if (o->slot != KEEP_BY_NAME) {
		found = *o;
		if (o->slot != KEEP_NOBODY && *o->session)
			session_set_origin(s, &found);
		return;
	}
	o->slot = KEEP_NOBODY;
	if (from_parse(o->session, &from, &why) < 0)
		return;
	template = conf_template_index(s->fs->conf, from.template);
	source = template <0 ? NULL : session_find(s->fs, (unsigned)template, from.session);
	if (!source || time_compare(&source->created, &o->time) > 0)
		return;
	found = *o;
	found.slot = source->slot;
	found.generation = source->generation;
	session_set_origin(s, &found);
}

/* Whose save it waits for; if that is not there, nothing will come of it. */
static void join_copy(struct session *s)
{
	static const struct problem gone = {
		.code = PROBLEM_NOT_SAVED,
		.cause = "the session that it was to be a copy of is not there any more",
		.fix = "echo reset > ctl gives the session a sandbox of its own."};
	struct session *source;

	if (s->saving.of_slot == KEEP_NOBODY)
		return;
	source = session_by_slot(s->fs, s->saving.of_slot, s->saving.of_generation);
	s->saving.of_slot = KEEP_NOBODY;
	if (source && keep_is_up(source))
		saving_join(s, source, MIN(s->saving.behind, source->last_number));
	else
		session_set_closed(s, &gone);
}

void keep_join(struct fs *fs)
{
	struct session *s;

	LIST_FOREACH(s, &fs->sessions, kept) {
		if (s->dead)
			continue;
		if (s->rerun)
			alarm_set(&fs->alarm, uv_now(fs->loop) + RERUN_TICK_MS);
		find_origin(s);
		if (s->state == SESSION_ASLEEP && !s->asleep.saved)
			join_copy(s);
	}
}

void keep_drop_unlinked(struct session *s)
{
	struct scratch_file *file, *next_file;

	for (file = TAILQ_FIRST(&s->scratch.files); file; file = next_file) {
		next_file = TAILQ_NEXT(file, link);
		if (!file->unlinked || file->opens)
			continue;
		file->opens++;
		scratch_close(s, file);
	}
}

static void nothing(void *run)
{
	(void)run;
}

static void settle(struct session *s)
{
	struct job *j, *next_job;
	struct run *r, *next_run;

	for (r = LIST_FIRST(&s->kept_runs); r; r = next_run) {
		next_run = LIST_NEXT(r, kept);
		run_unref(r);
	}
	for (j = LIST_FIRST(&s->kept_jobs); j; j = next_job) {
		next_job = LIST_NEXT(j, kept);
		if (j->removed)
			job_unref(j);
	}
	keep_drop_unlinked(s);
	if (TAILQ_EMPTY(&s->file_events.readers)) {
		buf_clear(&s->file_events.log);
		buf_clear(&s->file_events.blind);
	}
	if (s->dead)
		session_unref(s);
}

void keep_settle(struct fs *fs)
{
	struct session *s, *next;

	tdestroy(fs->inherited.runs, nothing);
	fs->inherited.runs = NULL;
	for (s = LIST_FIRST(&fs->sessions); s; s = next) {
		next = LIST_NEXT(s, kept);
		settle(s);
	}
}
