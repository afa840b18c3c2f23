/* SPDX-License-Identifier: Apache-2.0 */
/* The link between a session and its sandbox: what it is sent, and what it reports. See session.h. */
#include "binding_internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "vm/base/log.h"
#include "author.h"
#include "fs.h"
#include "intake.h"
#include "job.h"
#include "network.h"
#include "quota.h"
#include "spec.h"
#include "touch.h"
#include "traces.h"

/* ---- what the sandbox reports ---- */

/* Return: the session that has this, or NULL if it has dropped the sandbox. It is written down anew. */
static struct session *heard(void *data)
{
	struct session *s = ((struct binding *)data)->s;

	if (s)
		touch_session(s);
	return s;
}

/* Likewise, or NULL if it was removed. */
static struct session *reported(void *data)
{
	struct session *s = heard(data);

	return s && !s->dead ? s : NULL;
}

/* Likewise, with what changes seldom. */
static struct session *told(void *data)
{
	struct session *s = reported(data);

	if (s)
		touch_rest(s);
	return s;
}

/* It can be sent the next run. */
static void go_on(struct session *s)
{
	if (!s->active && s->pause.state != PAUSE_STILL)
		session_set_state(s, SESSION_IDLE);
	binding_pump(s);
	wait_wake(&s->front.wait);
}

static void count_start(struct session *s)
{
	const uint64_t us = (uv_hrtime() - s->binding->asked) / 1000;

	if (!s->binding->asked)
		return;
	timings_start(&s->fs->stats.timings, s->info.start, s->info.backend, us,
		      s->info.waited_ms * 1000);
	traces_start(s, launch_waiting(s), us, s->binding->awaited);
}

void binding_ready(struct session *s)
{
	assert(s->sandbox && !s->ready);
	touch_rest(s);
	s->ready = true;
	if (problem_kept(&s->front.error)->code == PROBLEM_IMAGE_MISSING ||
	    problem_kept(&s->front.error)->code == PROBLEM_PACKAGES_INSTALLING)
		session_problem(s, NULL); /* it waits no longer */
	binding_info(s);
	count_start(s);
	if (s->asleep.saved)
		asleep_woken(s);
	changes_begin(s);
	s->files_mtime = clock_now();
	file_events_ready(s);
	s->fs->watch->ready(s);
	go_on(s);
}

static void on_state(void *data, enum sandbox_state state)
{
	struct session *s = reported(data);

	if (!s || state != SANDBOX_READY)
		return;
	if (s->ready)
		go_on(s);
	else if (!s->asleep.saved || !s->fs->watch->wakes(s))
		binding_ready(s);
}

/* Starting takes long, and the session's `error` says why. */
static void on_awaits(void *data, const struct problem *what)
{
	struct session *s = reported(data);

	if (!s)
		return;
	if (!s->binding->awaited)
		s->binding->awaited = what->code;
	session_problem(s, what);
}

static void on_console(void *data, const void *bytes, size_t len)
{
	struct session *s = heard(data);

	if (s)
		intake_console(s, bytes, len);
}

static void on_output(void *data, uint32_t id, enum vm_stream stream, const void *bytes, size_t len)
{
	struct session *s = heard(data);

	if (s)
		intake_output(s, id, stream, bytes, len);
}

/* ---- standard input ---- */

static void feed_run(struct session *s)
{
	if (s->active && launch_input(s, s->active))
		wait_wake(&s->front.wait);
}

void binding_feed(struct front *f)
{
	if (f->job && !f->job->of_session)
		launch_feed(f->job);
	else
		feed_run(f->s);
}

static void on_room(void *data, uint32_t id)
{
	struct session *s = heard(data);
	struct front *f;

	if (s && intake_run(s, id, &f))
		binding_feed(f);
}

/* The program reads no more of its input. */
static void on_deaf(void *data, uint32_t id)
{
	struct session *s = heard(data);
	struct front *f;
	struct run *r = s ? intake_run(s, id, &f) : NULL;

	if (!r)
		return;
	feed_over(&r->feed);
	wait_wake(&f->wait);
}

/* ---- ends ---- */

static void on_job_exit(struct session *s, uint32_t id, const struct vm_result *result)
{
	struct job *j = job_by_id(s, id);

	if (!j || !j->inside || !job_going(j))
		return;
	binding_end_run(s, j->front.latest, result);
	job_over(j);
	binding_pump(s);
}

/* Nothing is left of a job. */
static void on_gone(void *data, uint32_t id)
{
	struct session *s = heard(data);
	struct job *j = s ? job_by_id(s, id) : NULL;

	if (j && !job_going(j))
		job_gone(j);
	if (s)
		binding_pump(s); /* one may have waited for its place */
}

static void on_run_exit(struct session *s, const struct vm_result *result)
{
	static const struct problem fresh = {.code = PROBLEM_RESET, .cause = "fresh = yes"};

	binding_finish(s, result);
	session_used(s);
	if (s->settings.fresh && s->sandbox) {
		binding_part(s, &fresh); /* queued runs get another sandbox */
		if (s->asleep.saved)
			asleep_return(s, saved_ref(s->asleep.saved));
		else
			session_set_state(s, SESSION_NEW);
	} else if (s->sandbox) {
		session_set_state(s, SESSION_IDLE);
		if (result->outcome != VM_LOST && result->outcome != VM_REFUSED)
			checkpoint_after_run(s);
	}
	wait_wake(&s->front.wait);
	binding_pump(s);
}

static void on_ended(void *data, uint32_t id, const struct vm_result *result)
{
	struct session *s = heard(data);

	if (s && sandbox_is_job(id))
		on_job_exit(s, id, result);
	else if (s && s->active && s->active->id == id)
		on_run_exit(s, result);
}

static void on_denied(void *data, const struct sandbox_denied *what)
{
	struct session *s = told(data);

	if (s)
		network_denied(s, what);
}

static void on_asked(void *data, const struct sandbox_asked *what)
{
	struct session *s = told(data);

	if (s)
		question_asked(s, what);
}

static void on_unasked(void *data, uint32_t id, unsigned why)
{
	struct session *s = told(data);

	if (s)
		question_unasked(s, id, why);
}

static void on_logged(void *data, const struct sandbox_logged *what)
{
	struct session *s = told(data);

	if (!s)
		return;
	connlog_add(s, what);
	if (s->settings.learn)
		lessons_note(&s->lessons, what);
}

static void on_secrets(void *data, const struct problem *problem)
{
	struct session *s = told(data);

	if (!s || !problem)
		return;
	session_problem(s, problem);
	events_add(&s->fs->events, s, "secret", problem->cause);
}

static void on_connected(void *data, const char *name, uint16_t port)
{
	struct session *s = told(data);

	if (s)
		network_connected(s, name, port);
}

static void on_network_lost(void *data, const struct problem *problem)
{
	struct session *s = told(data);

	if (!s)
		return;
	problem_keep(&s->standing, problem);
	session_problem(s, problem);
	binding_log_end(s, problem);
	events_add(&s->fs->events, s, "network", problem->cause);
	s->ports_mtime = clock_now();
}

static void on_ports(void *data)
{
	struct session *s = told(data);

	if (s)
		network_ports_changed(s);
}

static void on_frozen(void *data, int err)
{
	struct session *s = told(data);

	if (!s)
		return;
	pause_answered(s, err);
	if (s->changes.committing)
		return; /* it has only begun */
	wait_wake(&s->front.wait);
	binding_pump(s);
}

static void begin_copy(struct session *copy, struct saved *saved)
{
	struct problem why;

	if (quota_saved(copy->fs, copy, saved, &why) < 0) {
		binding_drop_copy(copy, &why);
		return;
	}
	asleep_begin(copy, saved_ref(saved));
	copy->fs->watch->settled(copy);
	if (copy->asleep.wake && !copy->sandbox)
		(void)binding_start(copy); /* its `error` says why not */
	binding_pump(copy);
	wait_wake(&copy->front.wait);
}

/* The sandbox goes, unless it has been asked for something meanwhile. At the end of a mount nobody gets it any more: who never stops
 * asking would cost it all that it has. */
static void fall_asleep(struct session *s, struct saved *saved)
{
	static const struct problem gone = {.code = PROBLEM_CLOSED,
					    .cause = "the session fell asleep"};
	const bool by_idle = s->saving.by_idle;
	const uint32_t line = s->line;
	struct problem why;

	if (saving_sleeps_later(s))
		return;
	s->saving.sleep = s->saving.by_idle = false;
	if (!s->fs->ending && binding_is_asked(s))
		return;
	if (!s->fs->ending && by_idle && session_in_use(s)) { /* opened since then */
		session_used(s);
		return;
	}
	if (quota_saved(s->fs, s, saved, &why) < 0) {
		session_problem(s, &why);
		saving_ends(s, true, &why);
		if (by_idle)
			binding_not_asleep(s, &why);
		return;
	}
	binding_cut(s, &gone);
	asleep_begin(s, saved_ref(saved));
	s->line = line;
}

static void on_saved(void *data, struct saved *saved, const struct problem *why)
{
	struct session *s = told(data), *copy;

	if (!s || !s->saving.going) {
		saved_unref(saved);
		return;
	}
	if (saved) {
		saving_done(s, saved);
		while ((copy = saving_next(s, SAVING_DUE)))
			begin_copy(copy, saved);
		if (s->saving.sleep)
			fall_asleep(s, saved);
		saved_unref(saved);
	} else {
		saving_ends(s, s->saving.last, why);
		binding_not_saved(s, why);
	}
	s->fs->watch->settled(s);
	wait_wake(&s->front.wait);
	binding_pump(s);
}

static void on_stirs(void *data)
{
	struct session *s = reported(data);

	if (s)
		s->fs->watch->stirs(s);
}

static void on_changed(void *data, const struct sandbox_change *c)
{
	struct session *s = reported(data);

	if (s)
		file_events_changed(s, c);
}

static void on_learned(void *data, const struct sandbox_learned *l)
{
	struct session *s = reported(data);

	if (!s)
		return;
	learned_add(&s->learned, l);
	touch_rest(s);
}

/* The sandbox has ended without being asked to. */
static void on_closed(void *data, const struct problem *problem)
{
	static const struct problem silent = {
		.code = PROBLEM_CLOSED, .cause = "the sandbox was closed because xsbxfs is ending"};
	struct binding *b = data;
	struct session *s = b->s;
	bool was_up, anew, again;

	free(b);
	if (!s)
		return;
	touch_rest(s);
	was_up = s->ready;
	pause_void(s);
	/* A reset came when the sandbox was ending already, which could not be seen yet. */
	anew = s->reset_asked && problem;
	again = !was_up && problem && asleep_again(s, problem);
	binding_unbind(s, again ? 0 : problem ? -EIO : -ESTALE);
	if (!problem)
		problem = &silent;
	binding_unsave(s, problem);
	if (!anew && !again)
		binding_refuse_all(s, problem);
	if (was_up && !anew) {
		session_set_closed(s, problem);
	} else if (again || !asleep_lost(s)) {
		struct problem told = *problem;

		if (!again && problem != &silent)
			asleep_stays(s, &told);
		session_problem(s, &told);
		session_set_state(s, s->asleep.saved ? SESSION_ASLEEP
				     : anew	     ? SESSION_NEW
						     : SESSION_FAILED);
	}
	binding_log_end(s, problem);
	wait_wake(&s->front.wait);
	if (anew && !was_up && !again && s->asleep.saved)
		(void)asleep_reset(s);
	if (again && binding_start(s) < 0) /* its `error` says why */
		s->fs->watch->gone(s, -EIO);
	if (again || anew)
		binding_pump(s);
}

static void on_touched(void *data)
{
	struct session *s = ((struct binding *)data)->s;

	if (s)
		touch_sandbox(s);
}

const struct sandbox_events binding_events = {.state = on_state,
					      .awaits = on_awaits,
					      .console = on_console,
					      .output = on_output,
					      .exit = on_ended,
					      .room = on_room,
					      .deaf = on_deaf,
					      .gone = on_gone,
					      .denied = on_denied,
					      .asked = on_asked,
					      .unasked = on_unasked,
					      .logged = on_logged,
					      .secrets = on_secrets,
					      .connected = on_connected,
					      .ports = on_ports,
					      .network_lost = on_network_lost,
					      .frozen = on_frozen,
					      .saved = on_saved,
					      .changed = on_changed,
					      .learned = on_learned,
					      .stirs = on_stirs,
					      .touched = on_touched,
					      .closed = on_closed};

/* ---- starting and feeding ---- */

static int no_sandbox(struct session *s, int err)
{
	session_problemf(s, PROBLEM_NO_SANDBOX, "", "no sandbox could be made: %s", strerror(-err));
	binding_log_end(s, problem_kept(&s->front.error));
	session_set_state(s, s->asleep.saved ? SESSION_ASLEEP : SESSION_FAILED);
	return err;
}

int binding_start(struct session *s)
{
	struct spec spec;
	int e = spec_of_session(&spec, s);
	struct saved *from = NULL;

	assert(!s->sandbox && !s->dead && !s->saving.of);
	if (e == 0)
		from = asleep_wake(s, &e);
	if (e == 0 && !from) {
		session_live_anew(s);
		s->base = (struct rerun_base){.anew = true};
	}
	s->binding = e < 0 ? NULL : calloc(1, sizeof(*s->binding));
	if (!s->binding) {
		spec_clear(&spec);
		saved_unref(from);
		return no_sandbox(s, -ENOMEM);
	}
	*s->binding = (struct binding){.s = s, .asked = uv_hrtime()};
	spec.sandbox.from = from;
	log_trace(&spec.sandbox.label, "fs", "asks for a sandbox");
	e = sandbox_new(s->fs->vm, &spec.sandbox, &binding_events, s->binding, &s->sandbox);
	spec_clear(&spec);
	saved_unref(from);
	if (e < 0) {
		free(s->binding);
		s->binding = NULL;
		return no_sandbox(s, e);
	}
	s->console_cut += s->console.len;
	buf_clear(&s->console);
	s->console_lost = false;
	session_set_state(s, SESSION_STARTING);
	return 0;
}

static unsigned timeout_of(const struct session *s, const struct run *r)
{
	return r->named ? r->timeout_s : s->settings.timeout_s;
}

static int hand_over(struct session *s, struct run *r)
{
	const struct author author = author_of_run(s, r->number);
	const struct sandbox_run run = {
		.id = r->number,
		.began = r->began,
		.author = author.text,
		.code = r->code.data,
		.code_len = r->code.len,
		.cwd = r->cwd,
		.env = {r->env.data, (uint32_t)r->env.len},
		.input = feed_any(&r->feed),
		.timeout_ms = timeout_of(s, r) * 1000u,
		.grace_ms = s->settings.grace_s * 1000u,
		.limit = {s->fs->conf->output_bytes, s->fs->conf->output_bytes},
	};

	s->fs->watch->stirs(s);
	return sandbox_run(s->sandbox, &run);
}

/* A run that could not be sent. */
static void not_sent(struct session *s, struct run *r, int err)
{
	struct problem p;

	problem_set(&p, PROBLEM_NOT_SENT, "", "the run could not be sent: %s", strerror(-err));
	binding_refuse(s, r, &p);
	wait_wake(&s->front.wait);
	binding_pump(s); /* nothing else would start the next one */
}

static void pump_run(struct session *s)
{
	struct run *r = TAILQ_FIRST(&s->queue);
	int e;

	if (s->active || !r)
		return;
	e = s->ready ? hand_over(s, r) : -EBUSY;
	if (e == -EBUSY || e == -EAGAIN)
		return; /* READY will come */
	if (e < 0) {
		not_sent(s, r, e);
		return;
	}
	touch_head(s);
	r->base = s->base;
	r->runs_before = s->runs_before;
	TAILQ_REMOVE(&s->queue, r, queue);
	s->nqueued--;
	s->active = r; /* the queue's reference */
	run_started(r, timeout_of(s, r));
	timings_sent(&s->fs->stats.timings, r);
	feed_started(&r->feed);
	session_set_state(s, SESSION_RUNNING);
	events_add_run(&s->fs->events, s, r);
	feed_run(s);
}

/* Saves the sandbox, if that is wanted. Return: whether nothing may be sent to it now. */
static bool pump_save(struct session *s)
{
	struct problem why;
	const int e = saving_step(s);

	if (e >= 0)
		return e > 0;
	if (e == -EDQUOT)
		problem_set(&why, PROBLEM_NOT_SAVED,
			    "Remove checkpoints (rmdir checkpoints/NAME) or sessions that are "
			    "asleep.",
			    "the memory of as many machines is saved in memory as there are "
			    "descriptors for");
	else
		problem_set(&why, PROBLEM_NOT_SAVED, "Try it again.",
			    "the sandbox was not saved: %s", strerror(-e));
	saving_ends(s, false, &why);
	binding_not_saved(s, &why);
	return false;
}

/* What was accepted when there was something left of the quota, and has not begun. */
static void refuse_past_quota(struct session *s)
{
	struct problem why;

	if ((s->nqueued || launch_pending(s)) && quota_begin(s->fs, s->uid, &why) < 0)
		binding_refuse_all(s, &why);
}

void binding_pump(struct session *s)
{
	touch_head(s);
	if (s->dead || s->changes.committing || s->saving.of || pump_save(s) ||
	    s->pause.state != PAUSE_NONE)
		return;
	refuse_past_quota(s);
	if (s->reset_asked && s->sandbox && !s->active) {
		s->fs->watch->stirs(s);
		if (sandbox_reset(s->sandbox) == 0)
			s->reset_asked = false;
		return; /* READY will come */
	}
	if (!s->sandbox && (s->nqueued || launch_pending(s)) && binding_start(s) < 0) {
		const struct problem why = *problem_kept(&s->front.error);

		binding_refuse_all(s, &why);
		return;
	}
	if (!s->sandbox)
		return;
	pump_run(s);
	if (s->ready && !s->reset_asked)
		launch_pump(s);
}
