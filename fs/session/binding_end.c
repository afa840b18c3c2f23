/* SPDX-License-Identifier: Apache-2.0 */
/* Ends: of a run, of waiting for a sandbox, and of the hold on one. See binding_internal.h. */
#include <errno.h>
#include <stdio.h>

#include "binding_internal.h"
#include "fs.h"
#include "job.h"
#include "quota.h"
#include "touch.h"
#include "traces.h"
#include "vm/base/log.h"

/* ---- ends of runs ---- */

static void run_over(struct session *s, struct run *r)
{
	s->fs->stats.runs[r->state]++;
	timings_ended(&s->fs->stats.timings, r, s->t->settings.spec.language);
	s->runs_mtime = r->ended;
	job_run_over(s, r);
	events_add_run(&s->fs->events, s, r);
	audit_run_ended(s, r);
	traces_run(s, r);
	log_trace(run_label(s, r), "fs", "its result can be read: %s", run_state_str(r->state));
}

void binding_refuse(struct session *s, struct run *r, const struct problem *why)
{
	TAILQ_REMOVE(&s->queue, r, queue);
	s->nqueued--;
	run_refuse(r, why);
	session_problem(s, why);
	run_over(s, r);
	run_unref(r);
}

void binding_log_end(const struct session *s, const struct problem *why)
{
	const char *code = problem_code_str(why->code);

	log_about(LOG_LEVEL_WARN, session_label(s), code, "%s: %s%s%s", s->path, code,
		  why->logged ? "" : ": ", why->logged ? "" : why->cause);
}

void binding_refuse_all(struct session *s, const struct problem *why)
{
	struct run *r;

	while ((r = TAILQ_FIRST(&s->queue)))
		binding_refuse(s, r, why);
	launch_refuse(s, why);
}

static void timed_out(const struct session *s, struct run *r)
{
	const struct question *asked = question_undecided(s, run_words(r).text);
	struct problem p;

	problem_set(&p, PROBLEM_TIMEOUT, "",
		    "%s was ended because it took longer than timeout_s = %u", run_words(r).text,
		    r->timeout_s);
	if (asked)
		problem_add(&p, "; it had asked for leave, of which nobody has decided: net/%s/%u",
			    asked->state == QUESTION_OPEN ? "pending" : "denied", asked->number);
	problem_add_fix(
		&p, "echo 'timeout_s = %u' >> config gives the next ones more time; 0 is no limit.",
		r->timeout_s * 4);
	problem_keep(&r->problem, &p);
}

void binding_end_run(const struct session *s, struct run *r, const struct vm_result *result)
{
	struct problem why;

	run_ended_with(r, result);
	if (problem_kept(&r->problem)->code)
		return;
	if (result->outcome == VM_TIMEOUT)
		timed_out(s, r);
	else if (result->outcome == VM_KILLED && quota_is_far_over(s->fs, s->uid, &why))
		problem_keep(&r->problem, &why); /* by quota_enforce() */
}

/* Those who wrote to a run that has ended write to the next one; but the input of a named run is its own. */
static void join_next(struct session *s)
{
	struct run *r;

	TAILQ_FOREACH(r, &s->queue, queue) {
		if (r->named)
			continue;
		front_join(&s->front, r);
		return;
	}
}

void binding_finish(struct session *s, const struct vm_result *result)
{
	struct run *r = s->active;

	touch_head(s);
	s->active = NULL;
	if (result->outcome != VM_REFUSED) { /* that one has not changed anything */
		s->last_ran = r->number;
		s->base = (struct rerun_base){0};
	}
	binding_end_run(s, r, result);
	join_next(s);
	if (problem_kept(&r->problem)->code)
		session_problem(s, problem_kept(&r->problem));
	run_over(s, r);
	run_unref(r);
}

/* ---- the hold on a sandbox ---- */

void binding_unbind(struct session *s, int err)
{
	/* Of one that was to wake, and did not, nobody has seen anything but what was saved, and is. */
	const bool unseen = !s->ready && s->asleep.saved;

	touch_rest(s);
	launch_unbind(s);
	file_events_gone(s);
	network_gone(s);
	question_sandbox_gone(s);
	s->binding = NULL;
	s->sandbox = NULL;
	problem_keep(&s->standing, NULL);
	s->ready = s->reset_asked = false;
	if (!unseen)
		s->line = ++s->epoch;
	s->fs->watch->gone(s, err);
}

/* Its sandbox goes, and the run in it. */
static void let_go(struct session *s, const struct problem *why)
{
	if (s->sandbox) {
		binding_unsave(s, why);
		binding_info(s);
		network_sample(s);
		sandbox_close(s->sandbox);
		s->binding->s = NULL;
		binding_unbind(s, -ESTALE);
		pause_void(s);
	} else if (s->saving.of) {
		saving_leave(s);
		s->fs->watch->gone(s, -ESTALE);
	}
	if (s->active) {
		/* Its processes are killed with the sandbox. */
		struct vm_result killed = {
			.outcome = VM_KILLED, .status = 137, .fresh = true, .problem = *why};

		binding_finish(s, &killed);
	}
}

/* The same of what had not begun. */
static struct problem not_begun(const struct problem *why)
{
	struct problem p = *why;

	if (p.code == PROBLEM_UNMOUNTED || p.code == PROBLEM_REMOVED || p.code == PROBLEM_RESET ||
	    p.code == PROBLEM_CLOSED)
		problem_add(&p, " before this run began");
	return p;
}

void binding_cut(struct session *s, const struct problem *why)
{
	const struct problem refused = not_begun(why);

	let_go(s, why);
	binding_refuse_all(s, &refused);
	launch_refuse(s, &refused);
	launch_cut(s, why);
}

void binding_part(struct session *s, const struct problem *why)
{
	let_go(s, why);
	launch_refuse(s, why);
	launch_cut(s, why);
}

void binding_lost(struct session *s, const struct problem *why)
{
	const struct vm_result lost = {.outcome = VM_LOST, .problem = *why};

	pause_void(s);
	binding_unsave(s, why);
	if (s->active)
		binding_finish(s, &lost);
	binding_refuse_all(s, why);
	launch_cut(s, why);
	binding_unbind(s, -EIO);
	session_set_closed(s, why);
	binding_log_end(s, why);
	wait_wake(&s->front.wait);
}

void binding_info(struct session *s)
{
	if (!s->sandbox)
		return;
	sandbox_info(s->sandbox, &s->info);
	touch_session(s);
	snprintf(s->interpreter, sizeof(s->interpreter), "%s", s->info.interpreter);
	s->info.interpreter = s->interpreter; /* not the sandbox's, which is freed with it */
}

/* ---- what was to be saved, and was not ---- */

void binding_drop_copy(struct session *copy, const struct problem *why)
{
	asleep_end(copy);
	session_set_origin(copy, NULL);
	binding_refuse_all(copy, why);
	session_set_closed(copy, why);
	copy->fs->watch->gone(copy, -ESTALE);
	wait_wake(&copy->front.wait);
}

static void drop_copies(struct session *s, enum saving_whom whom, const struct problem *why)
{
	struct session *copy;
	struct problem p;

	problem_set(&p, PROBLEM_NOT_SAVED,
		    "echo reset > ctl gives the session a sandbox of its own; or write from = ... "
		    "into config again.",
		    "%s, which it was to be a copy of, was not saved: %s", s->path, why->cause);
	while ((copy = saving_next(s, whom)))
		binding_drop_copy(copy, &p);
}

void binding_unsave(struct session *s, const struct problem *why)
{
	struct problem p;

	if (!saving_wanted(s))
		return;
	problem_set(&p, PROBLEM_NOT_SAVED, "", "the sandbox was not saved: %s", why->cause);
	saving_failed(s, SAVING_ALL, &p);
	drop_copies(s, SAVING_ALL, &p);
	wait_wake(&s->front.wait);
}

bool binding_is_asked(const struct session *s)
{
	return s->nqueued || launch_pending(s) || s->fs->watch->waits(s);
}

/* Since it began to be saved because nobody used it, which takes half a minute if it fails. */
static bool was_used(const struct session *s)
{
	const uint64_t due = s->idle_since + s->settings.idle_timeout_s * 1000ull;

	return binding_is_asked(s) || session_in_use(s) || !s->settings.idle_timeout_s ||
	       uv_now(s->fs->loop) < due;
}

void binding_not_asleep(struct session *s, const struct problem *why)
{
	struct problem p;

	if (s->fs->ending)
		return; /* that saves it */
	if (s->settings.idle != IDLE_AUTO) {
		session_used(s); /* tries it again */
		return;
	}
	problem_set(&p, PROBLEM_IDLE_TIMEOUT,
		    "echo reset > ctl gives the session a new sandbox; idle_timeout_s = 0 keeps it "
		    "for ever.",
		    "the session was closed after %u s without use, for it could not be put to "
		    "sleep: %s",
		    s->settings.idle_timeout_s, why->cause);
	binding_cut(s, &p);
	session_set_closed(s, &p);
}

void binding_not_saved(struct session *s, const struct problem *why)
{
	const bool by_idle = s->saving.by_idle;

	saving_failed(s, SAVING_DUE, why);
	drop_copies(s, SAVING_DUE, why);
	wait_wake(&s->front.wait);
	if (by_idle && was_used(s))
		session_used(s);
	else if (by_idle)
		binding_not_asleep(s, why);
}
