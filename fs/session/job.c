/* SPDX-License-Identifier: Apache-2.0 */
/* A job: its place in its session, and its history. See job.h. */
#include "job.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs.h"
#include "fs/request/reply.h"
#include "touch.h"
#include "traces.h"
#include "vm/base/problem.h"

/* ---- the session's list ---- */

struct job *job_find(const struct session *s, const char *name, bool of_session)
{
	struct job *j;

	TAILQ_FOREACH(j, &s->jobs, link)
		if (j->of_session == of_session && strcmp(j->name, name) == 0)
			return j;
	return NULL;
}

struct job *job_by_number(const struct session *s, uint32_t number)
{
	struct job *j;

	TAILQ_FOREACH_REVERSE(j, &s->jobs, job_list, link)
		if (j->number == number)
			return j;
	return NULL;
}

struct job *job_by_id(const struct session *s, uint32_t id)
{
	return job_by_number(s, id & ~SANDBOX_JOB_ID);
}

/* Has it ended, and left nothing behind? */
static bool is_history(const struct job *j)
{
	return j->front.latest && run_ended(j->front.latest) && !j->inside;
}

/* What is kept of a job alone: a named run's is the session's. */
static uint64_t bytes_of(const struct job *j)
{
	return j->of_session ? 0 : run_bytes(j->front.latest);
}

/* Of those that have ended: @ret_n of them, of so many bytes. Return: the one that has ended first, or NULL. */
static struct job *oldest(struct session *s, unsigned *ret_n, uint64_t *ret_bytes)
{
	struct job *j, *first = NULL;

	*ret_n = 0;
	*ret_bytes = 0;
	TAILQ_FOREACH(j, &s->jobs, link) {
		if (!is_history(j))
			continue;
		(*ret_n)++;
		*ret_bytes += bytes_of(j);
		if (!first ||
		    time_compare(&j->front.latest->ended, &first->front.latest->ended) < 0)
			first = j;
	}
	return first;
}

void job_changed(const struct job *j)
{
	struct kernel *kernel = j->s->fs->kernel;

	kernel_drop_attr(kernel, ino_of_session(j->s, NODE_JOB, j->number));
	kernel_drop_attr(kernel, ino_of_session(j->s, NODE_JOB_EXIT_CODE, j->number));
}

/* The history's limits: the one that ended first goes, until there are not more; the last one never. Return: how many are
 * left. */
static unsigned trim(struct session *s)
{
	const struct conf *c = s->fs->conf;
	uint64_t bytes;
	unsigned n;
	struct job *j;
	char words[128];

	while ((j = oldest(s, &n, &bytes)) && n > 1 &&
	       (n > c->history_runs || bytes > c->history_bytes)) {
		snprintf(words, sizeof(words), "%s %s removed from the history", job_noun(j),
			 j->name);
		events_add(&s->fs->events, s, "history", words);
		job_unlink(j);
		/* The kernel did not ask for that. */
		kernel_drop_attr(s->fs->kernel, ino_of_session(s, NODE_JOBS, 0));
	}
	return n;
}

/* Return: 0 or -EDQUOT. */
static int make_room(struct session *s)
{
	const unsigned ended = trim(s);

	if (s->njobs - ended < JOBS_MORE)
		return 0;
	session_problemf(s, PROBLEM_TOO_MANY, "Remove some: rmdir jobs/NAME, rmdir runs/NAME.",
			 "there are %u jobs and named runs that were not started, go on, or have "
			 "left processes behind",
			 s->njobs - ended);
	return -EDQUOT;
}

/* The directory that it is in has changed. */
static void touch(const struct job *j)
{
	*(j->of_session ? &j->s->runs_mtime : &j->s->jobs_mtime) = clock_now();
	touch_session(j->s);
	keeping_changed(j->s);
}

static uint32_t next_number(struct session *s)
{
	do
		s->last_job = s->last_job % JOB_NUMBER_MAX + 1;
	while (job_by_number(s, s->last_job));
	return s->last_job;
}

/* May there be a job of this name? Return: 0 or -errno. */
static int check(struct session *s, const char *name, bool of_session)
{
	if (of_session && name[strspn(name, "0123456789")] == '\0') {
		session_problemf(s, PROBLEM_BAD_NAME,
				 "Take a name with a letter in it: mkdir runs/NAME.",
				 "\"%s\" can't be the name of a run: numbers are those that the "
				 "session gives to its runs",
				 problem_quote(name).text);
		return -EINVAL;
	}
	if (!plain_name_ok(name)) {
		session_problemf(s, PROBLEM_BAD_NAME, PLAIN_NAME_FIX,
				 "\"%s\" can't be the name of a %s", problem_quote(name).text,
				 of_session ? "run" : "job");
		return strlen(name) > 64 ? -ENAMETOOLONG : -EINVAL;
	}
	if (job_find(s, name, of_session))
		return -EEXIST;
	if (of_session || !s->settings.fresh)
		return make_room(s);
	session_problemf(s, PROBLEM_UNSUPPORTED, "echo 'fresh = no' >> config",
			 "with fresh = yes there is no sandbox that a job could share");
	return -EOPNOTSUPP;
}

/* Return: one that is on no list yet but `kept_jobs`; NULL if out of memory. */
static struct job *new_job(struct session *s, const char *name, bool of_session, uint32_t number)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j || job_settings_init(&j->settings, &s->settings) < 0) {
		free(j);
		return NULL;
	}
	j->s = s;
	j->of_session = of_session;
	j->refs = 1;
	j->number = number;
	snprintf(j->name, sizeof(j->name), "%s", name);
	snprintf(j->path, sizeof(j->path), "%s/%s/%s", s->path, of_session ? "runs" : "jobs", name);
	front_init(&j->front, s, j);
	if (of_session)
		j->front.waitlist = &s->front.wait;
	j->config_mtime = j->front.created;
	LIST_INSERT_HEAD(&s->kept_jobs, j, kept);
	touch_job(j);
	return j;
}

int job_create(struct session *s, const char *name, bool of_session, struct job **ret_j)
{
	int e = session_check_damaged(s);
	struct job *j;

	if (e == 0)
		e = check(s, name, of_session);
	if (e < 0)
		return e;
	j = new_job(s, name, of_session, next_number(s));
	if (!j)
		return -ENOMEM;
	touch(j);
	TAILQ_INSERT_TAIL(&s->jobs, j, link);
	s->njobs++;
	*ret_j = j;
	return 0;
}

int job_revive(struct session *s, const char *name, bool of_session, uint32_t number, bool removed,
	       struct job **ret_j)
{
	struct job *j;

	if (!plain_name_ok(name) || number == 0 || number > JOB_NUMBER_MAX)
		return -EINVAL;
	if (!removed && (job_find(s, name, of_session) || job_by_number(s, number)))
		return -EEXIST;
	j = new_job(s, name, of_session, number);
	if (!j)
		return -ENOMEM;
	j->removed = removed;
	if (!removed) {
		TAILQ_INSERT_TAIL(&s->jobs, j, link);
		s->njobs++;
	}
	*ret_j = j;
	return 0;
}

struct job *job_ref(struct job *j)
{
	j->refs++;
	return j;
}

void job_unref(struct job *j)
{
	assert(j->refs > 0);
	if (--j->refs)
		return;
	assert(j->removed && (j->of_session || !job_going(j)));
	touch_job_gone(j);
	LIST_REMOVE(j, kept);
	job_settings_clear(&j->settings);
	front_fini(&j->front);
	free(j);
}

void job_unlink(struct job *j)
{
	struct session *s = j->s;

	assert((j->of_session || !job_going(j)) && !j->removed);
	touch_job(j);
	TAILQ_REMOVE(&s->jobs, j, link);
	s->njobs--;
	touch(j);
	job_changed(j);
	j->removed = true;
	j->inside = false;
	wait_wake(&j->front.wait); /* its run has ended, so that most waiters get an answer */
	wait_flush(&j->front.wait, -ESTALE);
	if (j->of_session)
		wait_wake(j->front.waitlist); /* among them those who wait for it to be started */
	scratch_unlink_all(s, ino_of_session(s, NODE_JOB, j->number));
	front_clear(&j->front);
	job_unref(j);
}

/* ---- why its run ended ---- */

/* @p says that it took too long. The `config` beside this `error` is one that can't change any more. */
static void explain_timeout(const struct job *j, const struct run *r, struct problem *p)
{
	const unsigned most = j->s->fs->conf->limits.max_timeout_s;
	unsigned more = MIN(r->timeout_s * 4, JOB_TIMEOUT_MAX);

	p->fix[0] = '\0';
	if (most && r->timeout_s >= most) {
		problem_add_fix(p, "The administrator allows no more: max_timeout_s = %u.", most);
		return;
	}
	if (most)
		more = MIN(more, most);
	problem_add_fix(p,
			"Make another %s, and echo 'timeout_s = %u' >> its config before you %s%s.",
			job_noun(j), more, j->of_session ? "write code to it" : "start it",
			most ? "" : "; 0 is no limit");
}

/* Return: what follows on @step in the agent's words for what has failed; NULL if that was another one. */
static const char *reason_behind(const struct problem *p, const char *step)
{
	const char *at = strstr(p->cause, step);

	return at ? at + strlen(step) : NULL;
}

/* What is executed, as its `config` or `in` names it. */
static struct problem_quoted program_of(const struct job *j)
{
	const struct buf *code = &j->front.last_code;
	const char *end;

	if (j->settings.argv.len)
		return problem_quote(j->settings.argv.data);
	if (j->settings.language)
		return problem_quote(j->settings.language);
	if (code->len < 2 || memcmp(code->data, "#!", 2) != 0)
		return problem_quote("in");
	end = memchr(code->data, '\n', code->len);
	return problem_quote_bytes(code->data, end ? (size_t)(end - code->data) : code->len);
}

/* @p says that it could not be started, in words of the agent, which knows steps. */
static void explain_start(const struct job *j, struct problem *p)
{
	const char *of_cwd = reason_behind(p, "working directory: ");
	const char *of_program = reason_behind(p, "starting the program: ");
	const struct problem old = *p;

	if (of_cwd)
		problem_wrap(p, PROBLEM_NOT_STARTED,
			     "Make another one, mkdir jobs/NAME, with a cwd that is there.",
			     "the job could not be started: cwd = %s: %s",
			     problem_quote(job_cwd(j)).text, old.cause + (of_cwd - p->cause));
	else if (of_program)
		problem_wrap(
			p, PROBLEM_NOT_STARTED,
			j->settings.argv.len
				? "Make another one, mkdir jobs/NAME, whose argv begins with a "
				  "program of the sandbox: its path, or a name in PATH."
				: "Make another one, mkdir jobs/NAME, with a program that the "
				  "sandbox can execute; a first line #! names one by its path.",
			"the job could not be started: \"%s\": %s", program_of(j).text,
			old.cause + (of_program - p->cause));
	else
		problem_wrap(p, PROBLEM_NOT_STARTED, job_another(j), "%s", old.cause);
}

/* What its owner can do about how it ended, and what the sandbox does not know of it. @reset: its session was */
static void explain(const struct job *j, const struct run *r, bool reset, struct problem *p)
{
	if (p->code == PROBLEM_TIMEOUT)
		explain_timeout(j, r, p);
	else if (p->code == PROBLEM_NOT_TAKEN && !j->of_session)
		explain_start(j, p);
	else if (!p->code && reset && r->state == RUN_KILLED)
		problem_set(p, PROBLEM_RESET, job_another(j),
			    "the session was reset, which kills its %s",
			    j->of_session ? "run" : "jobs");
}

/* ---- its run ---- */

bool job_going(const struct job *j)
{
	return j->front.latest && !run_ended(j->front.latest);
}

const char *job_state_str(const struct job *j)
{
	return j->front.latest ? run_state_str(j->front.latest->state) : "new";
}

void job_run_over(struct session *s, struct run *r)
{
	struct problem p = *problem_kept(&r->problem);
	struct job *j;

	TAILQ_FOREACH(j, &s->jobs, link) {
		if (!j->of_session || j->front.latest != r)
			continue;
		explain(j, r, s->reset_asked, &p);
		if (p.code)
			front_problem(&j->front, &p);
		job_changed(j);
		return;
	}
}

void job_over(struct job *j)
{
	struct session *s = j->s;
	struct run *r = j->front.latest;
	struct problem p;

	assert(run_ended(r) && s->jobs_going > 0);
	s->jobs_going--;
	j->unsent = false;
	touch_job(j);
	touch_run(r);
	p = *problem_kept(&r->problem);
	explain(j, r, j->reset, &p);
	problem_keep(&r->problem, &p);
	if (p.code)
		front_problem(&j->front, &p);
	s->fs->stats.jobs[r->state]++;
	timings_ended(&s->fs->stats.timings, r, "");
	events_add_run(&s->fs->events, s, r);
	audit_run_ended(s, r);
	traces_run(s, r);
	session_used(s);
	job_changed(j);
	log_trace(job_label(j), "fs", "its result can be read: %s", run_state_str(r->state));
	wait_wake(&j->front.wait);
}

void job_gone(struct job *j)
{
	j->inside = false;
	touch_job(j);
	(void)trim(j->s);
}
