/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs on their way into the sandbox, and what becomes of them when it goes. See job.h. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "fs.h"
#include "touch.h"
#include "author.h"
#include "job.h"
#include "vm/base/log.h"

bool launch_pending(const struct session *s)
{
	const struct job *j;

	if (s->jobs_going == 0)
		return false;
	TAILQ_FOREACH(j, &s->jobs, link)
		if (j->unsent)
			return true;
	return false;
}

struct run *launch_waiting(const struct session *s)
{
	const struct job *j;

	if (!TAILQ_EMPTY(&s->queue))
		return TAILQ_FIRST(&s->queue);
	TAILQ_FOREACH(j, &s->jobs, link)
		if (j->unsent)
			return j->front.latest;
	return NULL;
}

static void refuse(struct job *j, const struct problem *why)
{
	assert(j->unsent);
	run_refuse(j->front.latest, why);
	job_over(j);
}

void launch_refuse(struct session *s, const struct problem *why)
{
	struct job *j;

	TAILQ_FOREACH(j, &s->jobs, link)
		if (j->unsent)
			refuse(j, why);
}

void launch_cut(struct session *s, const struct problem *why)
{
	const struct vm_result killed = {.outcome = VM_KILLED, .status = 137, .problem = *why};
	struct job *j;

	launch_refuse(s, why);
	TAILQ_FOREACH(j, &s->jobs, link) {
		if (!job_going(j))
			continue;
		run_ended_with(j->front.latest, &killed);
		job_over(j);
	}
}

void launch_reset(struct session *s)
{
	struct job *j;

	TAILQ_FOREACH(j, &s->jobs, link) {
		j->reset = j->inside && job_going(j);
		touch_job(j);
	}
}

void launch_unbind(struct session *s)
{
	struct job *j;

	TAILQ_FOREACH(j, &s->jobs, link) {
		if (j->inside)
			touch_job(j);
		j->inside = false;
	}
}

/* Where input goes. */
struct target {
	struct sandbox *sandbox;
	uint32_t id;
	struct run *r;
};

static bool send_input(void *arg, const void *data, size_t len, bool last, size_t *ret_taken)
{
	const struct target *to = arg;

	const bool all = sandbox_write(to->sandbox, to->id, data, len, last, ret_taken);

	if (!*to->r->job)
		rerun_note_input(to->r, data, *ret_taken);
	return all;
}

bool launch_input(struct session *s, struct run *r)
{
	struct target to = {s->sandbox, r->id, r};

	touch_run(r);
	return s->sandbox && feed_send(&r->feed, send_input, &to);
}

void launch_feed(struct job *j)
{
	if (j->inside && job_going(j) && launch_input(j->s, j->front.latest))
		wait_wake(&j->front.wait);
}

/* Return: 0, or -errno as sandbox_job(). */
static int hand_over(struct job *j)
{
	const struct job_settings *with = &j->settings;
	const struct session *s = j->s;
	const struct run *r = j->front.latest;
	const struct author author = author_of_job(s, j->name);
	const uint64_t limit = s->fs->conf->output_bytes;
	const struct sandbox_job job = {
		.id = r->id,
		.began = r->began,
		.author = author.text,
		.argv = {with->argv.data, (uint32_t)with->argv.len},
		.code = {r->code.data, (uint32_t)r->code.len},
		.language = with->language ? with->language : "",
		.cwd = job_cwd(j),
		.env = {with->env.data, (uint32_t)with->env.len},
		.tty = with->tty,
		.root = with->root,
		.rows = with->rows,
		.cols = with->cols,
		.nice = with->nice,
		.input = feed_any(&r->feed),
		.timeout_ms = with->timeout_s * 1000u,
		.grace_ms = s->settings.grace_s * 1000u,
		.limit = {limit, limit},
	};

	j->s->base.stirred = true;
	s->fs->watch->stirs(j->s);
	return sandbox_job(s->sandbox, &job);
}

/* Return: whether the next one may be tried. */
static bool launch(struct job *j)
{
	struct session *s = j->s;
	const int e = hand_over(j);
	struct problem p;

	if (e == -EMFILE && problem_kept(&j->front.error)->code != PROBLEM_TOO_MANY)
		front_problemf(&j->front, PROBLEM_TOO_MANY,
			       "Remove jobs that have ended: rmdir jobs/NAME.",
			       "this job waits: all places of the sandbox are taken by jobs that "
			       "go on or have left processes behind");
	if (e == -EBUSY || e == -EAGAIN || e == -EMFILE)
		return false; /* READY will come, or one goes */
	if (e < 0) {
		problem_set(&p, PROBLEM_NOT_SENT, "", "the job could not be sent: %s",
			    strerror(-e));
		refuse(j, &p);
		return true;
	}
	if (problem_kept(&j->front.error)->code == PROBLEM_TOO_MANY)
		front_problem(&j->front, &(struct problem){0});
	j->unsent = false;
	j->inside = true;
	touch_job(j);
	run_started(j->front.latest, j->settings.timeout_s);
	timings_sent(&s->fs->stats.timings, j->front.latest);
	feed_started(&j->front.latest->feed);
	events_add_run(&s->fs->events, s, j->front.latest);
	launch_feed(j);
	wait_wake(&j->front.wait);
	return true;
}

void launch_pump(struct session *s)
{
	struct job *j;

	if (s->jobs_going == 0)
		return;
	TAILQ_FOREACH(j, &s->jobs, link)
		if (j->unsent && !launch(j))
			return;
}
