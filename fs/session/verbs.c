/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on a session: submitting runs, the verbs of `ctl`, and ending it. */
#include <assert.h>
#include <errno.h>

#include "audit.h"
#include "binding.h"
#include "fs.h"
#include "job.h"
#include "node.h"
#include "quota.h"
#include "session.h"
#include "touch.h"

/* ---- runs ---- */

int session_can_submit(struct session *s, const struct buf *code)
{
	struct problem why = {0};
	int e = session_may_submit(s, code, &why);

	if (why.code)
		session_problem(s, &why);
	return e;
}

int session_submit(struct session *s, struct buf *code, const struct timespec *mtime)
{
	int e = session_can_submit(s, code);
	struct run *r;

	if (e < 0)
		return e;
	r = session_add_run(s, code, mtime);
	if (!r)
		return -ENOMEM;
	front_feed(&s->front, r);
	binding_pump(s);
	wait_wake(&s->front.wait);
	return 0;
}

/* What a named run has of its own: copies, so that there is no run without them. */
struct place {
	char *cwd;
	struct buf env, code; /* the code for its `in` */
};

static void place_clear(struct place *p)
{
	free(p->cwd);
	buf_clear(&p->env);
	buf_clear(&p->code);
}

/* Return: 0 or -ENOMEM. */
static int place_copy(struct place *p, const struct job_settings *with, const struct buf *code)
{
	p->cwd = with->cwd ? strdup(with->cwd) : NULL;
	if ((with->cwd && !p->cwd) || buf_append(&p->env, with->env.data, with->env.len) < 0)
		return -ENOMEM;
	return buf_append(&p->code, code->data, code->len);
}

int session_submit_named(struct session *s, struct buf *code, const struct timespec *mtime,
			 struct job *j)
{
	struct place place = {0};
	struct run *r = NULL;

	if (place_copy(&place, &j->settings, code) == 0)
		r = session_add_run(s, code, mtime);
	if (!r) {
		place_clear(&place);
		return -ENOMEM;
	}
	r->cwd = place.cwd;
	r->env = place.env;
	r->named = true;
	r->timeout_s = j->settings.timeout_s;
	front_show(&j->front, r, &place.code, mtime);
	front_problem(&j->front, &(struct problem){0});
	front_feed(&j->front, r);
	if (j->settings.input)
		feed_keep_open(&r->feed, false);
	binding_pump(s);
	wait_wake(&s->front.wait);
	return 0;
}

int session_submit_late(struct session *s, struct buf *code, const struct timespec *mtime)
{
	struct problem why = {0};
	int e = session_may_submit(s, code, &why);
	struct run *r;

	if (e == 0)
		return session_submit(s, code, mtime);
	assert(!s->dead && why.code);
	r = session_add_run(s, code, mtime);
	if (!r)
		return -ENOMEM;
	binding_refuse(s, r, &why);
	wait_wake(&s->front.wait);
	return 0;
}

int session_start(struct session *s)
{
	struct problem why;

	if (s->dead || s->state == SESSION_CLOSED || s->on_disk.damaged || s->fs->ending)
		return -ESTALE;
	if (!s->sandbox && quota_is_far_over(s->fs, s->uid, &why)) {
		session_problem(s, &why);
		return -EDQUOT;
	}
	if (s->saving.of) { /* there is nothing to begin from yet */
		touch_session(s);
		s->asleep.wake = true;
		return 0;
	}
	return s->sandbox ? 0 : binding_start(s);
}

/* ---- ctl ---- */

int session_interrupt(struct session *s)
{
	if (!s->active) {
		session_problemf(s, PROBLEM_NOT_RUNNING, "", "there is no run to interrupt");
		return -ESRCH;
	}
	return sandbox_signal(s->sandbox, s->active->number, SANDBOX_INTERRUPT);
}

int session_kill(struct session *s)
{
	static const struct problem killed = {.code = PROBLEM_KILLED,
					      .cause = "killed by ctl before it began"};
	struct run *r = TAILQ_FIRST(&s->queue);

	if (s->active)
		return sandbox_signal(s->sandbox, s->active->number, SANDBOX_KILL);
	if (!r) {
		session_problemf(s, PROBLEM_NOT_RUNNING, "", "there is no run to kill");
		return -ESRCH;
	}
	binding_refuse(s, r, &killed);
	wait_wake(&s->front.wait);
	binding_pump(s); /* what is saved behind it waits no longer */
	return 0;
}

/* Files outlast a reset, the interpreter does not. */
static int reset_asleep(struct session *s)
{
	int e;

	if (!s->asleep.saved) {
		session_problemf(s, PROBLEM_BUSY, "Try it again in a moment.",
				 "what it is to be a copy of is being saved");
		return -EBUSY;
	}
	e = asleep_reset(s);
	if (e == 0)
		events_add(&s->fs->events, s, "session", "interpreter reset");
	return e;
}

static int reset_sandbox(struct session *s)
{
	static const struct problem reset = {.code = PROBLEM_RESET,
					     .cause = "the session was reset"};
	int e;

	if (s->changes.committing) { /* a reset would let stopped processes go on */
		session_problemf(s, PROBLEM_BUSY, "Wait until it has ended.",
				 "changes are being taken over");
		return -EBUSY;
	}
	if (s->active) {
		s->reset_asked = true;
		e = session_kill(s);
		return e == -ESRCH ? 0 : e; /* it has just ended */
	}
	if (s->state == SESSION_ASLEEP)
		return reset_asleep(s);
	if (s->state == SESSION_IDLE || s->state == SESSION_PAUSED) {
		pause_void(s);
		if (s->saving.going)
			binding_unsave(s, &reset);
		s->fs->watch->stirs(s);
		e = sandbox_reset(s->sandbox);
		s->fs->watch->settled(s); /* changes have waited for the save */
		if (e == -EBUSY)	  /* not READY yet, maybe from another reset */
			s->reset_asked = true;
		else if (e < 0)
			return e;
		session_used(s);
		events_add(&s->fs->events, s, "session", "interpreter reset");
		return 0;
	}
	if (s->state == SESSION_STARTING) { /* its interpreter will be a new one anyway */
		s->reset_asked = s->asleep.saved && saved_has_memory(s->asleep.saved);
		return 0;
	}
	binding_cut(s, &reset);
	changes_drop(s);
	if (!s->asleep.saved)
		session_set_origin(s, NULL); /* it begins with nothing */
	session_set_state(s, s->asleep.saved ? SESSION_ASLEEP : SESSION_NEW);
	session_problem(s, NULL);
	return 0;
}

int session_reset(struct session *s)
{
	const int e = reset_sandbox(s);

	if (e == 0) {
		launch_reset(s);
		s->base = (struct rerun_base){0};
		touch_session(s);
	}
	return e;
}

int session_close(struct session *s)
{
	static const struct problem closed = {
		.code = PROBLEM_CLOSED,
		.cause = "the session was closed by ctl",
		.fix = "echo reset > ctl gives the session a new sandbox."};

	if (s->asleep.saved && !s->ready)
		file_events_anew(s); /* else it ends with the sandbox */
	asleep_end(s);
	session_forget_sleep(s);
	session_set_origin(s, NULL);
	binding_cut(s, &closed);
	s->line = s->epoch;
	session_set_closed(s, &closed);
	rerun_cancel(s, "the session was closed");
	wait_wake(&s->front.wait);
	return 0;
}

int session_end_input(struct session *s)
{
	struct run *r = front_fed(&s->front);

	if (!r) {
		session_problemf(s, PROBLEM_NOT_RUNNING, "",
				 "there is no run whose standard input is open");
		return -ESRCH;
	}
	feed_end(&r->feed);
	binding_feed(&s->front);
	return 0;
}

int session_resume(struct session *s)
{
	const int e = pause_end(s);

	if (e < 0)
		return e;
	wait_wake(&s->front.wait);
	binding_pump(s);
	return 0;
}

/* ---- time ---- */

/* Puts a session to sleep that was not used. Return: when to look again. */
static uint64_t hibernate(struct session *s, uint64_t now)
{
	if (session_in_use(s)) {
		touch_session(s);
		s->idle_since = now;
		return now + s->settings.idle_timeout_s * 1000ull;
	}
	touch_session(s);
	s->saving.sleep = s->saving.by_idle = true;
	binding_pump(s);
	return UINT64_MAX;
}

/* A sandbox that was not used for idle_timeout_s is saved, or closed. */
static uint64_t check_idle(struct session *s, uint64_t now)
{
	struct problem idle;
	uint64_t due;

	if ((s->state != SESSION_IDLE && s->state != SESSION_PAUSED) || s->nqueued ||
	    s->jobs_going || s->changes.committing || !s->settings.idle_timeout_s)
		return UINT64_MAX;
	if (s->saving.going || s->saving.sleep) /* nobody says when that is over */
		return now + s->settings.idle_timeout_s * 1000ull;
	due = s->idle_since + s->settings.idle_timeout_s * 1000ull;
	if (now < due)
		return due;
	if (settings_hibernate(&s->settings))
		return hibernate(s, now);
	problem_set(&idle, PROBLEM_IDLE_TIMEOUT,
		    "echo reset > ctl gives the session a new sandbox; idle_timeout_s = 0 keeps it "
		    "for ever.",
		    "the session was closed after %u s without use", s->settings.idle_timeout_s);
	binding_cut(s, &idle);
	session_set_closed(s, &idle);
	wait_wake(&s->front.wait);
	return UINT64_MAX;
}

/* Return: when it is next to be looked at, that or @next, what is sooner. */
static uint64_t tick_sooner(struct waitlist *w, uint64_t now, uint64_t next)
{
	const uint64_t due = wait_tick(w, now);

	return MIN(due, next);
}

uint64_t session_tick(struct session *s, uint64_t now)
{
	const uint64_t idle = check_idle(s, now), restored = restoring_tick(s, now);
	uint64_t next = MIN(idle, restored);
	struct job *j;

	next = tick_sooner(&s->front.wait, now, next);
	next = tick_sooner(&s->file_events.wait, now, next);
	next = tick_sooner(&s->events_wait, now, next);
	TAILQ_FOREACH(j, &s->jobs, link)
		next = tick_sooner(&j->front.wait, now, next);
	return next;
}

void session_flush(struct session *s, int err)
{
	struct job *j;

	restoring_flush(s, err);
	wait_flush(&s->front.wait, err);
	wait_flush(&s->file_events.wait, err);
	wait_flush(&s->events_wait, err);
	TAILQ_FOREACH(j, &s->jobs, link)
		wait_flush(&j->front.wait, err);
}

/* ---- the end ---- */

/* Frees what can no longer be reached by name. Open handles keep references to what they need. */
static void let_go(struct session *s)
{
	struct checkpoint *cp;
	struct job *j;
	struct run *r;

	while ((j = TAILQ_FIRST(&s->jobs)))
		job_unlink(j); /* all have ended */
	while ((r = TAILQ_FIRST(&s->runs))) {
		TAILQ_REMOVE(&s->runs, r, link);
		touch_run(r);
		run_unref(r);
	}
	s->nruns = 0;
	while ((cp = TAILQ_FIRST(&s->checkpoints.list)))
		checkpoint_remove(s, cp);
	asleep_fini(s);
	changes_drop(s);
	scratch_unlink_all(s, 0);
	settings_clear(&s->settings);
	audit_unreported(s->fs, (uint64_t)s->netlog.events.quiet + s->netlog.connections.quiet);
	netlog_fini(&s->netlog);
	connlog_fini(&s->connlog);
	lessons_fini(&s->lessons);
	question_fini(s);
	front_clear(&s->front);
	s->console_cut += s->console.len;
	buf_clear(&s->console);
}

int session_remove(struct session *s)
{
	const struct session *copy = LIST_FIRST(&s->saving.copies);

	if (copy) {
		session_problemf(s, PROBLEM_BUSY,
				 "Try it again in a moment, or remove the copies first.",
				 "the session is being copied: %s is not there yet", copy->path);
		return -EBUSY;
	}
	session_destroy(s);
	return 0;
}

void session_destroy(struct session *s)
{
	static const struct problem gone = {.code = PROBLEM_REMOVED,
					    .cause = "the session was removed"};
	struct fs *fs = s->fs;
	const bool has_sandbox = s->sandbox || s->saving.of;

	assert(!s->dead);
	touch_rest(s);
	keeping_removed(s);
	s->dead = true;
	if (s->rerun)
		rerun_gone(s);
	rerun_cancel(s, "the session was removed");
	binding_cut(s, &gone);
	if (!has_sandbox) /* one that ended in this turn may have left requests */
		fs->watch->gone(s, -ESTALE);
	s->state = SESSION_CLOSED;
	wait_wake(&s->front.wait); /* every run has ended, so that most waiters get an answer */
	wait_flush(&s->front.wait, -ESTALE);
	restoring_flush(s, -ESTALE);
	wait_wake(&s->file_events.wait);
	let_go(s);
	events_add(&fs->events, s, "session", "removed");
	audit_session(s, "removed");
	wait_wake(&s->events_wait);
	fs->template_mtime[session_template(s)] = clock_now();
	fs->record.mount = true;
	session_leave_kin(s);
	roster_drop(&fs->roster, s);
	session_unref(s);
}

void session_undo(struct session *s)
{
	session_leave_kin(s);
	if (!s->dead)
		roster_drop(&s->fs->roster, s);
	s->dead = true;
	s->state = SESSION_CLOSED;
	let_go(s);
	buf_clear(&s->file_events.log);
	buf_clear(&s->file_events.blind);
	session_unref(s);
}
