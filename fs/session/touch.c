/* SPDX-License-Identifier: Apache-2.0 */
/* What was changed in this turn, by what it is. See touch.h. */
#include "touch.h"

#include "fs.h"
#include "job.h"
#include "session.h"

void touch_head(struct session *s)
{
	touched_add(&s->fs->touched, TOUCHED_SESSION, &s->touch);
}

void touch_sandbox(struct session *s)
{
	touched_add(&s->fs->touched, TOUCHED_SANDBOX, &s->touch_sandbox);
}

void touch_session(struct session *s)
{
	touch_head(s);
	touch_sandbox(s);
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

void touch_scratch(struct session *s, struct scratch_file *file)
{
	touched_add(&s->fs->touched, TOUCHED_SCRATCH, &file->touch);
}

void touch_scratch_gone(struct session *s, struct scratch_file *file)
{
	touched_take(&s->fs->touched, TOUCHED_SCRATCH, &file->touch);
	touched_add_gone(&s->fs->touched, TOUCHED_SCRATCH, session_key(s), file->id);
}

static void text_gone(struct touched *t, const struct trail *trail)
{
	if (trail->npieces)
		touched_add_gone(t, TOUCHED_TEXT, trail->id, 0);
}

void touch_session_gone(struct session *s)
{
	struct touched *t = &s->fs->touched;

	touched_take(t, TOUCHED_SESSION, &s->touch);
	touched_take(t, TOUCHED_REST, &s->touch_rest);
	touched_take(t, TOUCHED_SANDBOX, &s->touch_sandbox);
	touched_add_gone(t, TOUCHED_SESSION, session_key(s), 0);
	text_gone(t, &s->console_trail);
	text_gone(t, &s->front.stdin_trail);
	text_gone(t, &s->file_events.trail);
	text_gone(t, &s->connlog.trail);
}

/* Whoever writes them to the disk may have them for a while. */
static void blocks_gone(struct touched *t, struct spool *sp)
{
	for (uint32_t i = 0; i < sp->nblocks; i++) {
		struct block *b = sp->block[i];

		touched_take(t, TOUCHED_BLOCK, &b->touch);
		if (b->trail.id)
			touched_add_gone(t, TOUCHED_BLOCK, b->trail.id, 0);
		b->trail.id = 0;
	}
}

void touch_run_gone(struct run *r)
{
	struct touched *t;

	if (!r->s)
		return;
	t = &r->s->fs->touched;
	touched_take(t, TOUCHED_RUN, &r->touch);
	if (r->mark)
		touched_add_gone(t, TOUCHED_RUN, session_key(r->s), r->mark);
	text_gone(t, &r->feed.trail);
	for (unsigned i = 0; i < RUN_NOUTPUTS; i++)
		blocks_gone(t, &r->spool[i]);
}

void touch_job_gone(struct job *j)
{
	struct touched *t = &j->s->fs->touched;

	touched_take(t, TOUCHED_JOB, &j->touch);
	if (j->mark)
		touched_add_gone(t, TOUCHED_JOB, session_key(j->s), j->mark);
	text_gone(t, &j->front.stdin_trail);
}
