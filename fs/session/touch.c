/* SPDX-License-Identifier: Apache-2.0 */
/* What was changed in this turn, by what it is. See touch.h. */
#include "touch.h"

#include "fs.h"
#include "job.h"
#include "session.h"

uint64_t touch_key(const struct session *s)
{
	return (uint64_t)s->slot << 32 | s->generation;
}

void touch_session(struct session *s)
{
	touched_add(&s->fs->touched, TOUCHED_SESSION, &s->touch);
}

void touch_rest(struct session *s)
{
	touched_add(&s->fs->touched, TOUCHED_REST, &s->touch_rest);
	touch_session(s);
}

void touch_run(struct run *r)
{
	if (r->s)
		touched_add(&r->s->fs->touched, TOUCHED_RUN, &r->touch);
}

void touch_job(struct job *j)
{
	touched_add(&j->s->fs->touched, TOUCHED_JOB, &j->touch);
}

/* Below files/ it is the agent that something is changed of, or its nodes. */
static bool is_below_files(enum node_kind kind)
{
	return kind == NODE_FILE || kind == NODE_FILES || kind == NODE_CHECKPOINT_FILE ||
	       kind == NODE_CHECKPOINT_FILES;
}

/* Of these a request changes the queue of runs, and what they are made of. */
static bool is_of_runs(enum node_kind kind)
{
	return kind >= NODE_IN && kind <= NODE_ERROR;
}

void touch_by_kind(struct session *s, struct job *j, enum node_kind kind, uint32_t sub)
{
	struct scratch_file *file;

	if (j)
		touch_job(j);
	if (!s || is_below_files(kind))
		return;
	if (is_of_runs(kind) || (j && kind != NODE_JOB))
		touch_session(s);
	else
		touch_rest(s);
	file = kind == NODE_SCRATCH ? scratch_by_id(s, sub) : NULL;
	if (file)
		touch_scratch(s, file);
}

void touch_scratch(struct session *s, struct scratch_file *file)
{
	touched_add(&s->fs->touched, TOUCHED_SCRATCH, &file->touch);
}

void touch_scratch_gone(struct session *s, struct scratch_file *file)
{
	touched_take(&s->fs->touched, TOUCHED_SCRATCH, &file->touch);
	touched_add_gone(&s->fs->touched, TOUCHED_SCRATCH, touch_key(s), file->id);
}

void touch_session_gone(struct session *s)
{
	struct touched *t = &s->fs->touched;

	touched_take(t, TOUCHED_SESSION, &s->touch);
	touched_take(t, TOUCHED_REST, &s->touch_rest);
	touched_add_gone(t, TOUCHED_SESSION, touch_key(s), 0);
}

void touch_run_gone(struct run *r)
{
	struct touched *t;

	if (!r->s)
		return;
	t = &r->s->fs->touched;
	touched_take(t, TOUCHED_RUN, &r->touch);
	if (r->mark)
		touched_add_gone(t, TOUCHED_RUN, touch_key(r->s), r->mark);
}

void touch_job_gone(struct job *j)
{
	struct touched *t = &j->s->fs->touched;

	touched_take(t, TOUCHED_JOB, &j->touch);
	if (j->mark)
		touched_add_gone(t, TOUCHED_JOB, touch_key(j->s), j->mark);
}
