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

static int refuse(struct restoring *r, const struct problem *why)
{
	struct session *s = r->s;

	touch_session(s);
	touch_rest(s); /* that a checkpoint is damaged is known by now */
	if (saved_is_damaged(r->saved))
		session_problemf(s, PROBLEM_DAMAGED, "rmdir removes the checkpoint. " KEEPING_MEND,
				 "the checkpoint \"%s\" can't be read from state_dir: " STAYS,
				 r->name);
	else if (saved_pack(r->saved))
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
	if (why && (!saved_pack(r->saved) || has_something(r->s)))
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
	LIST_INSERT_HEAD(&s->restoring, r, link);
	saved_load(r->saved, &r->wait);
	return true;
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
