/* SPDX-License-Identifier: Apache-2.0 */
/* Ends what goes on of users who have used up their processor time, and more. See quota.h. */
#include "fs.h"
#include "job.h"
#include "quota.h"
#include "session.h"
#include "vm/base/problem.h"

/* Return: whether there was something. */
static bool kill_all(struct session *s)
{
	const bool runs = s->active;
	bool jobs = false;
	struct job *j;

	if (runs)
		(void)session_kill(s);
	TAILQ_FOREACH(j, &s->jobs, link) {
		if (j->of_session || !j->inside || !job_going(j))
			continue;
		jobs = true;
		(void)job_signal(j, SANDBOX_KILL);
	}
	return runs || jobs;
}

/* Where there is nothing to kill, something goes on behind the runs, or it is awake for somebody who wants its files: it falls
 * asleep, with all that it has. */
static void stop(struct session *s, const struct problem *why)
{
	if (!kill_all(s) && !s->saving.going && session_sleep(s) < 0)
		(void)session_close(s);
	session_problem(s, why);
	events_add(&s->fs->events, s, "quota", why->cause);
}

void quota_enforce(struct fs *fs)
{
	struct session *s;
	struct problem why;

	if (!fs->enforce)
		return;
	fs->enforce = false;
	for (unsigned i = 0; !fs->ending && i < fs->roster.n; i++) {
		s = roster_at(&fs->roster, i);
		if (!s || !s->sandbox || !s->ready || !quota_is_far_over(fs, s->uid, &why))
			continue;
		session_ref(s);
		stop(s, &why);
		session_unref(s);
	}
}
