/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a mount that keeps its sessions: they are put to sleep, and written. See keeper.h. */
#include <assert.h>

#include "fs/session/binding.h"
#include "fs/session/fs.h"
#include "fs/session/rerun_verbs.h"
#include "fs/session/job.h"
#include "keeper_internal.h"
#include "vm/base/log.h"

#define LOOK_MS	     50u
#define INTERRUPT_MS 10000u /* runs are waited for */
#define KILL_MS	     3000u  /* ... behind an interrupt */
#define SLEEP_MS \
	10000u /* ... behind their end, to be saved; a save that is under way is waited for longer */
#define SAVE_MS	 60000u
#define FREED_MS 1000u /* what had gone is given back by then */
#define WRITE_MS 60000u
#define TWICE_MS \
	500u /* a signal that comes again so soon is the same one: it came to the guard as well, which passes it on */

static const struct problem ending = {.code = PROBLEM_UNMOUNTED,
				      .cause = "xsbxfs was ended before this run began",
				      .fix = "Run it again."};
static const struct problem not_saved = {.code = PROBLEM_NOT_KEPT,
					 .cause = "xsbxfs ended before the session could be saved"};

/* What has a sandbox still loses it, so that its runs have ended when they are written. */
static void cut(struct session *s)
{
	const struct problem *why = problem_kept(&s->saving.unsaved);
	struct problem lost;
	bool back;

	keep_lost(s, checkpoint_any(s), &lost);
	if (why->code)
		problem_add(&lost, " (%s)", why->cause);
	binding_cut(s, &not_saved);
	if (s->asleep.saved) {
		session_set_state(s, SESSION_ASLEEP);
		return;
	}
	back = asleep_back(s, why->cause);
	if (!back)
		session_set_closed(s, &lost);
	/* Of some there can be nothing to keep. */
	if (!s->settings.spec.work && !s->settings.fresh)
		s->fs->keeper->unkept = true;
	log_about(LOG_LEVEL_WARN, session_label(s), NULL, "%s: %s", s->path,
		  back ? problem_kept(&s->front.error)->cause : lost.cause);
}

/* ---- sleep ---- */

/* One that is not to be saved, or has nothing to save yet, loses its sandbox at once. */
static bool has_nothing(const struct session *s)
{
	struct problem why;

	return !s->ready || s->settings.spec.work || s->settings.fresh ||
	       saving_may(s, true, &why) < 0;
}

/* What a save lacks that fails, such as descriptors, others may have still. */
static bool may_pass(const struct session *s)
{
	const enum problem_code code = problem_kept(&s->saving.unsaved)->code;

	return code != PROBLEM_TOO_MUCH_SAVED && code != PROBLEM_OVER_QUOTA;
}

/* Have others gone a moment ago? */
static bool is_freed(const struct keeper *k)
{
	return k->freed_ms && uv_now(k->fs->loop) - k->freed_ms < FREED_MS;
}

static void put_to_sleep(const struct keeper *k, struct session *s)
{
	struct run *r;

	while ((r = TAILQ_FIRST(&s->queue)))
		binding_refuse(s, r, &ending);
	launch_refuse(s, &ending);
	if (!s->sandbox || s->saving.going)
		return;
	if (s->saving.sleep) { /* what it waited behind may be gone by now */
		binding_pump(s);
		return;
	}
	if (s->saving.tried && !(may_pass(s) && is_freed(k))) {
		if (!may_pass(s) || !k->awake.saving)
			cut(s);
		return;
	}
	if (!s->active && !s->jobs_going && has_nothing(s)) {
		binding_cut(s, &not_saved);
		session_set_state(s, s->asleep.saved ? SESSION_ASLEEP : SESSION_NEW);
		return;
	}
	s->saving.sleep = true;
	s->saving.by_idle = false;
	binding_pump(s);
}

static void look_around(struct keeper *k)
{
	struct awake a = {0};

	for (unsigned i = 0; i < k->fs->roster.n; i++) {
		struct session *s = roster_at(&k->fs->roster, i);

		if (!s)
			continue;
		session_ref(s);
		put_to_sleep(k, s);
		if (s->sandbox && (s->active || s->jobs_going))
			a.running++;
		else if (s->sandbox && s->saving.going)
			a.saving++;
		else if (s->sandbox)
			a.other++;
		session_unref(s);
	}
	if (a.running + a.saving + a.other < k->awake.running + k->awake.saving + k->awake.other)
		k->freed_ms = uv_now(k->fs->loop);
	k->awake = a;
}

/* ---- runs that go on ---- */

static void end_runs(struct keeper *k, bool kill)
{
	for (unsigned i = 0; i < k->fs->roster.n; i++) {
		struct session *s = roster_at(&k->fs->roster, i);
		struct job *j, *next;

		if (!s || !s->sandbox)
			continue;
		if (s->active)
			(void)sandbox_signal(s->sandbox, s->active->number,
					     kill ? SANDBOX_KILL : SANDBOX_INTERRUPT);
		for (j = TAILQ_FIRST(&s->jobs); j; j = next) {
			next = TAILQ_NEXT(j, link);
			if (!j->of_session && job_going(j) && !j->unsent)
				(void)job_signal(j, kill ? SANDBOX_KILL : SANDBOX_INTERRUPT);
		}
	}
}

/* ---- steps ---- */

static void go_to(struct keeper *k, enum keeper_end_step step)
{
	k->step = step;
	k->step_ms = uv_now(k->fs->loop);
}

/* Return: whether all that can be saved is, or there is no more time. */
static bool sleep_step(struct keeper *k)
{
	const uint64_t past = uv_now(k->fs->loop) - k->step_ms;
	struct awake a;

	look_around(k);
	a = k->awake;
	if (!a.running && !a.saving && !a.other)
		return true;
	if (k->step == END_SLEEP && past >= INTERRUPT_MS && a.running) {
		log_info("%u session%s run something still, which is interrupted", a.running,
			 a.running == 1 ? "" : "s");
		end_runs(k, false);
		go_to(k, END_INTERRUPT);
	} else if (k->step == END_INTERRUPT && past >= KILL_MS && a.running) {
		log_info("%u run on, and are killed", a.running);
		end_runs(k, true);
		go_to(k, END_KILL);
	} else if (past >= SLEEP_MS && (!a.saving || past >= SAVE_MS) &&
		   !(k->step == END_SLEEP && a.running)) {
		log_warn("not all sessions could be saved in time");
		return true;
	}
	return false;
}

static void cut_all(struct keeper *k)
{
	for (unsigned i = 0; i < k->fs->roster.n; i++) {
		struct session *s = roster_at(&k->fs->roster, i);

		if (s && s->sandbox)
			cut(s);
	}
}

static bool write_step(struct keeper *k)
{
	if (keeper_is_idle(k))
		return true;
	if (uv_now(k->fs->loop) - k->step_ms < WRITE_MS)
		return false;
	log_error("not all sessions could be written to state_dir in time");
	return true;
}

/* Is there one of which not even that got to the disk? */
static bool is_any_untold(const struct keeper *k)
{
	for (unsigned i = 0; i < k->fs->roster.n; i++) {
		const struct session *s = roster_at(&k->fs->roster, i);

		if (s && s->on_disk.err && !s->on_disk.sum)
			return true;
	}
	return !keeper_is_idle(k);
}

static void over(struct keeper *k)
{
	unsigned n = 0;

	go_to(k, END_OVER);
	if (!keeper_is_idle(k))
		k->unkept = true;
	keeper_stop(k);
	for (unsigned i = 0; i < k->fs->roster.n; i++) {
		const struct session *s = roster_at(&k->fs->roster, i);

		if (!s || !s->on_disk.err)
			continue;
		n++;
		log_about(LOG_LEVEL_ERROR, session_label(s), NULL,
			  "%s: not written to state_dir as it was at the end", s->path);
	}
	if (n)
		k->unkept = true;
	if (k->unkept && is_any_untold(k))
		log_error("not all that sessions had is kept, and the next mount can't say of each "
			  "what is lost: it finds what was written last");
	else if (k->unkept)
		log_error("not all that sessions had is kept: the `error` of each, at the next "
			  "mount, says what is lost");
	else if (!k->comes_back)
		log_info("sessions are asleep, and written");
	/* What was let go of while the last round was written. */
	if (!n && keeper_is_idle(k))
		keeper_forget(k, vault_mark(k->vault));
	keeper_held_clear(k);
	k->done(k->data);
}

static void on_end_timer(uv_timer_t *timer)
{
	struct keeper *k = timer->data;

	if (k->step == END_OVER)
		return;
	if (k->step != END_WRITE && sleep_step(k)) {
		cut_all(k);
		go_to(k, END_WRITE);
		keeper_flush(k);
	}
	if (k->step == END_WRITE && write_step(k)) {
		over(k);
		return;
	}
	uv_timer_start(&k->end_timer, on_end_timer, LOOK_MS, 0);
}

static void look(struct keeper *k)
{
	if (k->step == END_WRITE && keeper_is_idle(k))
		uv_timer_start(&k->end_timer, on_end_timer, 0, 0);
}

bool keeper_kept_all(const struct keeper *k)
{
	return !k->unkept && !k->comes_back;
}

void keeper_end(struct keeper *k, bool at_once, void (*done)(void *data), void *data)
{
	k->done = done;
	k->data = data;
	k->fs->ending = true;
	rerun_end_all(k->fs);
	k->look = look;
	if (k->step == END_NONE) {
		log_info("sessions are put to sleep");
		go_to(k, END_SLEEP);
	} else if (k->step == END_INTERRUPT ||
		   (k->step == END_SLEEP && uv_now(k->fs->loop) - k->step_ms >= TWICE_MS)) {
		/* somebody is in a hurry */
		end_runs(k, true);
		go_to(k, END_KILL);
	}
	if (at_once && k->step != END_WRITE && k->step != END_OVER) {
		cut_all(k);
		go_to(k, END_WRITE);
		keeper_flush(k);
	}
	if (k->step != END_OVER)
		uv_timer_start(&k->end_timer, on_end_timer, 0, 0);
}
