/* SPDX-License-Identifier: Apache-2.0 */
/* A session's sandbox is being saved. See saving.h. */
#include "saving.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs.h"
#include "quota.h"
#include "session.h"
#include "touch.h"
#include "vm/base/problem.h"
#include "traces.h"

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
	static const char fix[] =
		"Wait until the state is idle, or write when = idle into config first.";

	if (s->jobs_going) /* beside which the state is idle */
		problem_set(why, PROBLEM_BUSY,
			    "cat jobs/NAME/exit_code waits for one, rmdir jobs/NAME ends it; or "
			    "write when = idle into config first.",
			    "%u job%s of the session go%s on", s->jobs_going,
			    s->jobs_going == 1 ? "" : "s", s->jobs_going == 1 ? "es" : "");
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
	if (s->on_disk.damaged) {
		*why = *problem_kept(&s->closed);
		return -ESTALE;
	}
	if (s->settings.spec.work || s->settings.fresh)
		return refuse_kind(s, why);
	if (!s->sandbox) {
		problem_set(why, PROBLEM_BUSY, session_idle_fix(s),
			    "there is nothing to save: the session is %s",
			    session_state_str(s->state));
		return -EBUSY;
	}
	return is_busy(s) && !when_idle ? refuse_busy(s, why) : 0;
}

/* Has that run begun? (Those that are queued are in the order of their numbers.) */
static bool is_behind(const struct session *s, uint32_t number)
{
	const struct run *next = TAILQ_FIRST(&s->queue);

	return !next || next->number > number;
}

static struct checkpoint *first_saving(const struct session *s, enum saving_whom whom)
{
	struct checkpoint *cp;

	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		if (cp->state == CHECKPOINT_SAVING &&
		    (whom == SAVING_ALL || is_behind(s, cp->behind)))
			return cp;
	return NULL;
}

static struct session *first_copy(const struct session *s, enum saving_whom whom)
{
	struct session *copy;

	LIST_FOREACH(copy, &s->saving.copies, saving.copy)
		if (whom == SAVING_ALL || is_behind(s, copy->saving.behind))
			return copy;
	return NULL;
}

static bool is_wanted(const struct session *s, enum saving_whom whom)
{
	return (s->saving.sleep && (whom == SAVING_ALL || !saving_sleeps_later(s))) ||
	       first_copy(s, whom) || first_saving(s, whom);
}

bool saving_wanted(const struct session *s)
{
	return is_wanted(s, SAVING_ALL);
}

bool saving_sleeps_later(const struct session *s)
{
	return (s->nqueued || s->jobs_going) && s->saving.sleep && !s->saving.by_idle &&
	       !s->fs->ending && s->settings.when == SAVE_IDLE;
}

int saving_step(struct session *s)
{
	int e;

	if (s->saving.going)
		return 1;
	if (!s->sandbox || !is_wanted(s, SAVING_DUE) || s->active || s->jobs_going || !s->ready ||
	    s->reset_asked || s->pause.state == PAUSE_ASKED)
		return 0;
	e = sandbox_save(s->sandbox, true);
	s->saving.going = e == 0;
	if (e == 0) { /* what kept it from beginning is over */
		s->saving.last = s->fs->ending;
		s->saving.began = uv_hrtime();
		problem_keep(&s->saving.unsaved, NULL);
	}
	if (e == -EBUSY)
		return 0; /* it is not READY, but will be; until then it takes no run either */
	return e == 0 ? 1 : e;
}

int saving_refuse(const struct session *s, struct problem *why)
{
	const struct checkpoint *cp = first_saving(s, SAVING_DUE);
	char fix[sizeof(why->fix)] = "Try it again in a moment.";

	assert(s->saving.going);
	if (cp)
		snprintf(fix, sizeof(fix), "cat checkpoints/%s/wait waits until it is.", cp->name);
	problem_set(why, PROBLEM_BUSY, fix, "%s%s",
		    cp ? "a checkpoint is being saved: " : "the session is being saved",
		    cp ? cp->name : "");
	return -EBUSY;
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

static void tell_traces(const struct session *s, const struct problem *why)
{
	traces_saved(s, (uv_hrtime() - s->saving.began) / 1000, why);
}

void saving_done(struct session *s, struct saved *saved)
{
	struct checkpoint *cp;

	touch_session(s);
	s->saving.going = false;
	s->fs->stats.saved++;
	tell_traces(s, NULL);
	while ((cp = first_saving(s, SAVING_DUE)))
		serve(s, cp, saved);
}

void saving_failed(struct session *s, enum saving_whom whom, const struct problem *why)
{
	struct checkpoint *cp;

	touch_session(s);
	if (whom == SAVING_ALL || !saving_sleeps_later(s))
		s->saving.sleep = s->saving.by_idle = false;
	if (s->saving.going)
		tell_traces(s, why);
	s->saving.going = false;
	s->fs->stats.saves_failed++;
	session_problem(s, why);
	while ((cp = first_saving(s, whom)))
		checkpoint_failed(s, cp, why);
}

void saving_ends(struct session *s, bool tried, const struct problem *why)
{
	if (!s->fs->ending)
		return;
	problem_keep(&s->saving.unsaved, why);
	s->saving.tried = tried;
}

struct session *saving_next(struct session *s, enum saving_whom whom)
{
	struct session *copy = first_copy(s, whom);

	if (copy)
		saving_leave(copy);
	return copy;
}

void saving_join(struct session *copy, struct session *s, uint32_t behind)
{
	assert(!copy->saving.of && copy != s);
	touch_session(copy);
	copy->saving.of = s;
	copy->saving.behind = behind;
	LIST_INSERT_HEAD(&s->saving.copies, copy, saving.copy);
}

void saving_leave(struct session *copy)
{
	if (!copy->saving.of)
		return;
	touch_session(copy);
	copy->saving.of = NULL;
	copy->saving.behind = 0;
	LIST_REMOVE(copy, saving.copy);
}
