/* SPDX-License-Identifier: Apache-2.0 */
/* What `restore` goes back to is read before anything is given up for it. See restoring.h. */
#include "restoring.h"

#include <errno.h>
#include <stdio.h>

#include "fs.h"
#include "session.h"
#include "touch.h"

#define STAYS "the session is as it was"

/* Is there anything that it would give up? */
static bool has_something(const struct session *s)
{
	return s->sandbox || s->asleep.saved;
}

/* That of what else is there? */
static bool is_damaged_memory(const struct restoring *r, const struct problem *why)
{
	return why->code == PROBLEM_NOT_RESTORED && saved_pack(r->saved);
}

static int refuse(struct restoring *r, const struct problem *why)
{
	struct session *s = r->s;

	touch_session(s);
	touch_rest(s); /* that a checkpoint is damaged is known by now */
	if (saved_is_damaged(r->saved))
		session_problemf(s, PROBLEM_DAMAGED, "rmdir removes the checkpoint. " KEEPING_MEND,
				 "the checkpoint \"%s\" can't be read from state_dir: " STAYS,
				 r->name);
	else if (is_damaged_memory(r, why))
		session_problemf(s, PROBLEM_DAMAGED,
				 "Its files can be had: in checkpoints/NAME/files, or in another "
				 "session that is a copy of it (`from`).",
				 "the checkpoint \"%s\" has no memory any more: %s; " STAYS,
				 r->name, why->cause);
	else
		session_problemf(s, why->code, *why->fix ? why->fix : "Try it again.",
				 "the checkpoint \"%s\" could not be read: %s; " STAYS, r->name,
				 why->cause);
	wait_wake(&s->front.wait); /* somebody may wait for the checkpoint */
	return why->code == PROBLEM_NO_MEMORY ? -ENOMEM : -EIO;
}

/* Lets go of what it has. */
static void over(struct restoring *r)
{
	LIST_REMOVE(r, link);
	wait_cancel(&r->wait);
	r->saved = saved_unref(r->saved);
	session_unref(r->s);
	r->s = NULL;
}

static void on_read(struct wait *w, const struct problem *why)
{
	struct restoring *r = container_of(w, struct restoring, wait);
	int err = 0;

	/* Without its memory it is better than nothing. */
	if (why && (!is_damaged_memory(r, why) || has_something(r->s)))
		err = refuse(r, why);
	over(r);
	r->done(r, err);
}

bool restoring_begin(struct restoring *r, struct session *s, const char *name)
{
	const struct checkpoint *cp = checkpoint_find(s, name);

	if (!cp || !cp->saved || checkpoint_is_lost(cp) || saved_is_loaded(cp->saved))
		return false;
	r->s = session_ref(s);
	r->saved = saved_ref(cp->saved);
	snprintf(r->name, sizeof(r->name), "%s", cp->name);
	r->wait.done = on_read;
	r->wait.owner = s->uid;
	r->until = uv_now(s->fs->loop) + RESTORING_MS;
	alarm_set(&s->fs->alarm, r->until);
	LIST_INSERT_HEAD(&s->restoring, r, link);
	saved_load(r->saved, &r->wait);
	return true;
}

static struct restoring *next_due(const struct session *s, uint64_t now)
{
	struct restoring *r;

	LIST_FOREACH(r, &s->restoring, link)
		if (now >= r->until)
			return r;
	return NULL;
}

uint64_t restoring_tick(struct session *s, uint64_t now)
{
	static const struct problem slow = {.code = PROBLEM_NO_RESOURCES,
					    .fix = "Try it again: the disk may have answered.",
					    .cause = "the disk did not answer in time"};
	uint64_t next = UINT64_MAX;
	struct restoring *r;
	int err;

	session_ref(s);
	while ((r = next_due(s, now))) {
		err = refuse(r, &slow);
		over(r);
		r->done(r, err);
	}
	LIST_FOREACH(r, &s->restoring, link)
		next = MIN(next, r->until);
	session_unref(s);
	return next;
}

void restoring_cancel(struct restoring *r)
{
	if (r->s)
		over(r);
}

void restoring_flush(struct session *s, int err)
{
	struct restoring *r;

	session_ref(s);
	while ((r = LIST_FIRST(&s->restoring))) {
		over(r);
		r->done(r, err);
	}
	session_unref(s);
}
