/* SPDX-License-Identifier: Apache-2.0 */
/* Does what was read of a session fit together? */
#include "internal.h"

static bool numbers_are_sound(const struct session *s)
{
	const struct checkpoint *cp;
	const struct run *r;
	const struct job *j;

	LIST_FOREACH(r, &s->kept_runs, kept)
		if (r->number > s->last_number)
			return false;
	TAILQ_FOREACH(j, &s->jobs, link)
		if (s->last_job == 0 || j->number > JOB_NUMBER_MAX)
			return false;
	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		if (cp->number > s->checkpoints.last)
			return false;
	return s->last_ran <= s->last_number;
}

/* Every run but those that only handles have belongs to somebody. */
static bool jobs_are_sound(const struct session *s)
{
	const struct run *r;
	const struct job *j;
	unsigned of_jobs = 0, going = 0;

	LIST_FOREACH(r, &s->kept_runs, kept)
		of_jobs += *r->job && !run_ended(r);
	TAILQ_FOREACH(j, &s->jobs, link)
		going += !j->of_session && job_going(j);
	return of_jobs == going && going == s->jobs_going;
}

bool keep_is_up(const struct session *s)
{
	return s->state == SESSION_STARTING || s->state == SESSION_IDLE ||
	       s->state == SESSION_RUNNING || s->state == SESSION_PAUSED;
}

static bool state_is_sound(const struct session *s, bool live)
{
	const bool up = keep_is_up(s);

	if (s->dead)
		return s->state == SESSION_CLOSED && !s->active && !s->nqueued &&
		       TAILQ_EMPTY(&s->jobs);
	if ((s->state == SESSION_RUNNING) != (s->active != NULL))
		return false;
	if (s->state == SESSION_ASLEEP && !s->asleep.saved && s->saving.of_slot == KEEP_NOBODY)
		return false;
	if (!live)
		return !up;
	return up || (!s->ready && s->pause.state == PAUSE_NONE);
}

bool keep_is_sound(const struct session *s, bool live)
{
	return numbers_are_sound(s) && jobs_are_sound(s) && state_is_sound(s, live);
}
