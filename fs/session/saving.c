/* SPDX-License-Identifier: Apache-2.0 */
/* A session's sandbox is being saved. See saving.h. */
#include "saving.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "fs.h"
#include "quota.h"
#include "session.h"
#include "touch.h"
#include "vm/base/problem.h"

static int refuse_kind(const struct session *s, struct problem *why)
{
	if (s->settings.spec.work)
		problem_set(why, PROBLEM_UNSUPPORTED, "Use a template without `work`.",
			    "files/ is a copy of a directory of the host, and is not saved");
	else
		problem_set(why, PROBLEM_UNSUPPORTED, "echo 'fresh = no' >> config",
			    "with fresh = yes nothing of a sandbox outlasts its run");
	return -EOPNOTSUPP;
}

static int refuse_busy(const struct session *s, struct problem *why)
{
	static const char fix[] = "Wait until the state is idle, or write when = idle into config.";

	if (s->jobs_going)
		problem_set(why, PROBLEM_BUSY, fix, "%u job%s of the session go%s on",
			    s->jobs_going, s->jobs_going == 1 ? "" : "s",
			    s->jobs_going == 1 ? "es" : "");
	else if (s->active || s->nqueued)
		problem_set(why, PROBLEM_BUSY, fix,
			    "a run goes on or waits, and a session is saved between two runs");
	else
		problem_set(why, PROBLEM_BUSY, fix, "its sandbox is not ready yet");
	return -EBUSY;
}

static bool is_busy(const struct session *s)
{
	return s->active || s->nqueued || s->jobs_going || !s->ready || s->reset_asked ||
	       s->pause.state == PAUSE_ASKED;
}

int saving_may(const struct session *s, bool when_idle, struct problem *why)
{
	if (s->settings.spec.work || s->settings.fresh)
		return refuse_kind(s, why);
	if (!s->sandbox) {
		problem_set(why, PROBLEM_BUSY, pause_fix(s),
			    "there is nothing to save: the session is %s",
			    session_state_str(s->state));
		return -EBUSY;
	}
	return is_busy(s) && !when_idle ? refuse_busy(s, why) : 0;
}

static struct checkpoint *first_saving(const struct session *s)
{
	struct checkpoint *cp;

	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		if (cp->state == CHECKPOINT_SAVING)
			return cp;
	return NULL;
}

bool saving_wanted(const struct session *s)
{
	return s->saving.sleep || !LIST_EMPTY(&s->saving.copies) || first_saving(s);
}

bool saving_sleeps_later(const struct session *s)
{
	return s->nqueued && s->saving.sleep && !s->saving.by_idle && !s->fs->ending &&
	       s->settings.when == SAVE_IDLE;
}

int saving_step(struct session *s)
{
	int e;

	if (s->saving.going)
		return 1;
	if (saving_sleeps_later(s) && LIST_EMPTY(&s->saving.copies) && !first_saving(s))
		return 0;
	if (!s->sandbox || !saving_wanted(s) || s->active || s->jobs_going || !s->ready ||
	    s->reset_asked || s->pause.state == PAUSE_ASKED)
		return 0;
	e = sandbox_save(s->sandbox, true);
	s->saving.going = e == 0;
	if (e == -EBUSY)
		return 0; /* READY will come; until then it takes no run either */
	return e == 0 ? 1 : e;
}

static void serve(struct session *s, struct checkpoint *cp, struct saved *saved)
{
	struct problem why;

	if (checkpoint_room(s, saved, &why) == 0 && quota_saved(s->fs, s, saved, &why) == 0) {
		checkpoint_whole(s, cp, saved);
		return;
	}
	checkpoint_failed(s, cp, &why);
	session_problem(s, &why);
}

void saving_done(struct session *s, struct saved *saved)
{
	struct checkpoint *cp;

	touch_session(s);
	s->saving.going = false;
	s->fs->stats.saved++;
	while ((cp = first_saving(s)))
		serve(s, cp, saved);
}

void saving_failed(struct session *s, const struct problem *why)
{
	struct checkpoint *cp;

	touch_session(s);
	s->saving.going = s->saving.sleep = s->saving.by_idle = false;
	s->fs->stats.saves_failed++;
	session_problem(s, why);
	while ((cp = first_saving(s)))
		checkpoint_failed(s, cp, why);
}

struct session *saving_next(struct session *s)
{
	struct session *copy = LIST_FIRST(&s->saving.copies);

	if (copy)
		saving_leave(copy);
	return copy;
}

void saving_join(struct session *copy, struct session *s)
{
	assert(!copy->saving.of && copy != s);
	touch_session(copy);
	copy->saving.of = s;
	LIST_INSERT_HEAD(&s->saving.copies, copy, saving.copy);
}

void saving_leave(struct session *copy)
{
	if (!copy->saving.of)
		return;
	touch_session(copy);
	copy->saving.of = NULL;
	LIST_REMOVE(copy, saving.copy);
}
