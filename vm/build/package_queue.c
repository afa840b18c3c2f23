/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of package installations, and the choice of the next one. */
#include <errno.h>
#include <string.h>

#include "package_internal.h"
#include "vm/base/problem.h"

/*
 * Theory of operation
 * -------------------
 * Only one installation runs at a time, and may take minutes, so the order matters if several users have
 * sessions. The next one is for the user who was served least recently, among those with requests: users
 * whose sandboxes wait for packages, or who query versions, and, as another user, all templates that are
 * prepared before they are used. A job requested by several users is served with the first of them. So
 * users with many requests only delay themselves.
 *
 * Jobs that nobody waits for any more are dropped, unless a template needs them, or they have started:
 * then the result will be used by the next request. Failures are remembered for a while, because
 * templates repeat their requests.
 */

#define NEWEST	  "newest "
#define TEMPLATES ((uid_t)-1)

static void need_free(struct layer_need *n)
{
	free((char *)n->image);
	free((char *)n->language);
	free((char *)n->packages);
}

void package_job_free(struct package_job *job)
{
	need_free(&job->need);
	free(job);
}

void package_job_forget(struct package_jobs *in, struct package_job *job)
{
	TAILQ_REMOVE(&in->installs, job, link);
	package_job_free(job);
}

struct package_job *package_job_new(struct package_jobs *in, const char *key,
				    const struct layer_need *need)
{
	struct package_job *job = calloc(1, sizeof(*job));
	bool bad = false;

	if (!job)
		return NULL;
	memcpy(job->key, key, sizeof(job->key));
	job->need = *need;
	job->need.image = copy_text(need->image, &bad);
	job->need.language = copy_text(need->language, &bad);
	job->need.packages = copy_text(need->packages, &bad);
	if (bad) {
		need_free(&job->need);
		free(job);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&in->installs, job, link);
	return job;
}

struct package_job *package_job_find(const struct package_jobs *in, const char *key)
{
	struct package_job *job;

	TAILQ_FOREACH(job, &in->installs, link) {
		if (strcmp(job->key, key) == 0)
			return job;
	}
	return NULL;
}

/* ---- what is forgotten ---- */

void package_jobs_unwait(struct package_jobs *in, struct wait *w)
{
	struct package_job *job = w->on;

	if (!w->list)
		return;
	wait_cancel(w);
	if (job->step == PACKAGE_QUEUED && !job->prepared && !job->ask &&
	    !wait_any(&in->waits, job))
		package_job_forget(in, job);
}

/* ---- whose turn it is ---- */

/* How many turns ago did somebody have one? Return: PACKAGE_TURNS if that is not known any more. */
static unsigned turns_since(const struct package_jobs *in, uid_t user)
{
	unsigned n = 0;

	while (n < in->nserved && in->served[n] != user)
		n++;
	return n < in->nserved ? n : PACKAGE_TURNS;
}

static void serve(struct package_jobs *in, uid_t user)
{
	const unsigned since = turns_since(in, user);
	const unsigned later = MIN(since, MIN(in->nserved, PACKAGE_TURNS - 1));

	memmove(in->served + 1, in->served, later * sizeof(*in->served));
	in->served[0] = user;
	in->nserved = MAX(in->nserved, later + 1);
}

struct choice {
	struct package_job *job;
	uid_t user;
	unsigned since;
};

/* The first of those who were served at the same time stays. */
static void consider(const struct package_jobs *in, struct package_job *job, uid_t user,
		     struct choice *c)
{
	const unsigned since = turns_since(in, user);

	if (job->step == PACKAGE_QUEUED && (!c->job || since > c->since))
		*c = (struct choice){job, user, since};
}

struct package_job *package_job_choose(struct package_jobs *in)
{
	struct choice c = {NULL, 0, 0};
	const struct wait *w;
	struct package_job *job;

	/* Sessions that wait for packages come before mere questions. */
	TAILQ_FOREACH(w, &in->waits, link)
		consider(in, w->on, w->owner, &c);
	TAILQ_FOREACH(job, &in->installs, link) {
		if (job->prepared)
			consider(in, job, TEMPLATES, &c);
		for (const struct package_ask *a = job->ask; a; a = a->next)
			consider(in, job, a->owner, &c);
	}
	if (c.job) {
		c.job->of_user = c.user != TEMPLATES;
		c.job->user = c.user;
		serve(in, c.user);
	}
	return c.job;
}

/* ---- waiters ---- */

void package_jobs_explain(const struct wait *w, struct problem *p)
{
	const struct package_job *job = w->on;

	problem_set(p, PROBLEM_PACKAGES_INSTALLING,
		    "Wait: the run begins when they are there. `console` shows how far it is.",
		    "the packages are being installed: %s",
		    job->line[0] ? job->line : "it begins soon");
}

void package_jobs_explain_late(struct problem *p)
{
	problem_set(p, PROBLEM_PACKAGES_FAILED, "Run it again.",
		    "the packages were not installed within %u minutes", PACKAGE_JOB_MS / 60000);
}

/* ---- requests ---- */

void package_ask_line(struct package_ask *ask, const char *line)
{
	const size_t len = strlen(ask->words), more = strlen(line);

	if (strncmp(line, NEWEST, strlen(NEWEST)) != 0)
		return;
	/* A line that may have been cut names another version. */
	if (more >= LINES_MAX - 1 || len + more >= sizeof(ask->words))
		ask->cut = true;
	else
		snprintf(ask->words + len, sizeof(ask->words) - len, "%s%s", len ? " " : "",
			 line + strlen(NEWEST));
}

void package_ask_answer(struct package_job *job, const struct problem *why)
{
	const struct package_ask *first = job->ask;
	const char *cause = why				     ? why->cause
			    : !first			     ? ""
			    : first->cut || !first->words[0] ? "the registry's answer can't be used"
							     : NULL;

	for (const struct package_ask *a = first; a; a = a->next)
		a->fn(a->data, cause ? NULL : first->words, cause);
	while (job->ask) {
		struct package_ask *next = job->ask->next;

		free(job->ask);
		job->ask = next;
	}
}
