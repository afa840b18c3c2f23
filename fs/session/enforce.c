/* SPDX-License-Identifier: Apache-2.0 */
/* Ends what goes on of users who have used up their processor time, and more, and networks. See quota.h. */
#include <stdlib.h>
#include <string.h>

#include "account.h"
#include "fs.h"
#include "job.h"
#include "quota.h"
#include "session.h"
#include "touch.h"
#include "vm/base/problem.h"
#include "vm/base/util.h"

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

static void stop_all(struct fs *fs)
{
	struct session *s;
	struct problem why;

	for (unsigned i = 0; i < fs->roster.n; i++) {
		s = roster_at(&fs->roster, i);
		if (!s || !s->sandbox || !s->ready || !quota_is_far_over(fs, s->uid, &why))
			continue;
		session_ref(s);
		stop(s, &why);
		session_unref(s);
	}
}

/* ---- networks ---- */

/* Nothing can be reached any more, or what its list says. Open connections end as well. */
static void set_network(struct session *s, bool none)
{
	const struct net_policy policy = network_policy(s, &s->settings);
	_cleanup_free_ char *list = network_list(s, &s->settings);
	char words[VM_WHY_MAX];
	struct problem why;

	touch_sandbox(s);
	if (!list || sandbox_policy(s->sandbox, list, &policy, words) < 0 || !none)
		return;
	quota_net_problem(s->fs, s->uid, &why);
	session_problem(s, &why);
	events_add(&s->fs->events, s, "quota", why.cause);
}

/* All lists count again when a day begins, also those that another daemon has taken away. */
static void look_at_networks(struct fs *fs, bool anew)
{
	for (unsigned i = 0; i < fs->roster.n; i++) {
		struct session *s = roster_at(&fs->roster, i);
		bool none;

		if (!s || !s->sandbox || !s->settings.spec.network)
			continue;
		none = !quota_net_left(fs, s->uid);
		if (none || anew)
			set_network(s, none);
	}
}

static bool is_any_limited(const struct quotas *q)
{
	bool any = q->each.net_bytes_day || q->all.net_bytes_day;

	for (size_t i = 0; !any && i < q->n; i++)
		any = q->user[i].may.net_bytes_day;
	return any;
}

static uint64_t enforce_networks(struct fs *fs)
{
	const struct timespec now = clock_now();
	const int64_t day = account_day(&now);
	struct tm next;

	if (!is_any_limited(&fs->conf->quota))
		return UINT64_MAX;
	if (fs->net_out || fs->net_day != day)
		look_at_networks(fs, fs->net_day != day);
	fs->net_out = false;
	fs->net_day = day;
	return uv_now(fs->loop) + (quota_day_left(fs, &next) + 1) * 1000;
}

uint64_t quota_enforce(struct fs *fs)
{
	if (fs->ending || fs->stopping)
		return UINT64_MAX;
	if (fs->enforce) {
		fs->enforce = false;
		stop_all(fs);
	}
	return enforce_networks(fs);
}
