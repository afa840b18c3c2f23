/* SPDX-License-Identifier: Apache-2.0 */
/* A session made again from its record, or given up while that is read. See keep.h. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/session/fs.h"
#include "internal.h"

void keep_discard(struct session *s)
{
	struct job *j, *next;
	struct run *r;

	while ((r = TAILQ_FIRST(&s->queue))) {
		TAILQ_REMOVE(&s->queue, r, queue);
		run_unref(r);
	}
	s->nqueued = 0;
	if (s->active)
		run_unref(s->active);
	s->active = NULL;
	LIST_FOREACH(r, &s->kept_runs, kept)
		r->state = run_ended(r) ? r->state : RUN_LOST;
	s->jobs_going = 0;
	for (j = LIST_FIRST(&s->kept_jobs); j; j = next) {
		next = LIST_NEXT(j, kept);
		j->unsent = j->inside = false;
		if (j->removed) {
			front_clear(&j->front);
			job_unref(j);
		}
	}
	keep_drop_unlinked(s);
	session_undo(s);
}

static void release_runs(struct keep_in *in)
{
	for (size_t i = 0; i < in->nruns; i++)
		run_unref(in->run[i]);
	free(in->run);
}

/* It was asleep with something that is not there. */
static void close_unsaved(struct keep_in *in)
{
	struct session *s = in->s;
	struct problem why;

	if (s->state != SESSION_ASLEEP || s->asleep.saved || !in->unsaved.code)
		return;
	if (in->unreadable) {
		asleep_close_damaged(s, steal_ptr(in->unreadable), s->asleep.since,
				     in->unsaved.cause);
		return;
	}
	s->state = SESSION_CLOSED;
	problem_set(&why, PROBLEM_DAMAGED,
		    "echo reset > ctl gives the session a new sandbox; rmdir removes it.",
		    "what was saved of the session when it fell asleep can't be had: %s",
		    in->unsaved.cause);
	if (checkpoint_any(s))
		checkpoint_advise(&why);
	problem_keep(&s->closed, &why);
	session_problem(s, &why);
}

/* Behind what was said just now of the session, which has lost more than that. */
static void tell_missing(struct keep_in *in)
{
	const struct session *s = in->s;
	struct problem p = {0}, *first = &in->missing.first;

	if (s->state == SESSION_CLOSED)
		p = *problem_kept(&s->closed);
	else if (in->back && s->asleep.saved)
		p = *problem_kept(&s->front.error);
	if (in->missing.n > 1)
		problem_add(first, "; and not all of %u more is there", in->missing.n - 1);
	problem_also(&p, first);
	session_problem(in->s, &p);
}

/* What is left to do when all was read. */
static void finish(struct keep_in *in)
{
	struct session *s = in->s;

	if (in->back && s->asleep.saved)
		asleep_tell_back(s, in->back_err ? strerror((int)in->back_err) : "");
	if (in->missing.n)
		tell_missing(in);
	s->first_event = in->fs->events.next;
	s->idle_since = uv_now(in->fs->loop);
	s->epoch++;
}

int keep_damaged(struct problem *why, const char *what)
{
	problem_set(why, PROBLEM_DAMAGED, "Remove it: rmdir.", "what was kept of it is damaged%s",
		    what);
	return -EBADMSG;
}

static int find_template(const struct fs *fs, const char *name, struct problem *why)
{
	const int i = conf_template_index(fs->conf, name);

	if (i >= 0)
		return i;
	problem_set(why, PROBLEM_NO_SUCH_TEMPLATE, "Mount with a configuration that has it.",
		    "its template \"%s\" is not there any more", name);
	return -ENOENT;
}

int keep_revive(struct keep_in *in, const struct record *record, struct session_place *at)
{
	struct keep_whose of = {0};
	int e, template;

	if (keep_get_whose(record, &of) < 0 || (of.dead && !at))
		return keep_damaged(in->why, "");
	template = find_template(in->fs, of.name.template, in->why);
	if (template <0)
		return template;
	if (at)
		at->dead = of.dead;
	e = session_revive(in->fs, (unsigned)template, of.name.name, of.name.uid, at, &in->s);
	if (e == -EINVAL)
		return keep_damaged(in->why, ": it can't be where it was");
	if (e < 0) {
		problem_set(in->why, PROBLEM_FAILED, "", "it can't be made again: %s",
			    strerror(-e));
		return e;
	}
	in->s->saving.of_slot = KEEP_NOBODY;
	in->s->gid = of.name.gid;
	if (of.dead) { /* as session_destroy() has left it */
		settings_clear(&in->s->settings);
		in->s->state = SESSION_CLOSED;
	}
	return 0;
}

int keep_fill(struct keep_in *in, const struct record *record)
{
	int e = keep_fields(in, record->fields, keep_session_field, in->s);

	if (e == 0)
		close_unsaved(in);
	in->unreadable = saved_unref(in->unreadable);
	if (e == -EBADMSG)
		return keep_damaged(in->why, "");
	if (e == -EACCES)
		*in->why = in->not_allowed;
	else if (e < 0)
		problem_set(in->why, PROBLEM_FAILED,
			    e == -ENOMEM ? "Free some memory, and mount again."
					 : "Mend what is wrong, and mount again.",
			    "it can't be made again: %s", strerror(-e));
	return e;
}

int keep_get(struct fs *fs, const struct record *record, const struct keep_io *io,
	     struct problem *why, struct session **ret_s)
{
	struct keep_in in = {.fs = fs, .io = io, .why = why};
	int e = keep_revive(&in, record, NULL);

	assert(!io->live);
	if (e < 0)
		return e;
	e = keep_fill(&in, record);
	if (e == 0 && !keep_is_sound(in.s, false))
		e = keep_damaged(why, "");
	if (e == 0)
		finish(&in);
	release_runs(&in);
	if (e < 0)
		keep_discard(in.s);
	else
		*ret_s = in.s;
	return e;
}
