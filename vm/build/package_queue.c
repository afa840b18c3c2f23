/* SPDX-License-Identifier: Apache-2.0 */
/* Which packages are to be installed, and what is installed next. */
#include <errno.h>
#include <string.h>

#include "package_internal.h"
#include "vm/base/problem.h"
#include "vm/vm_internal.h"

/*
 * Theory of operation
 * -------------------
 * One thing is installed at a time, and may take minutes, so whose turn it is matters where several users
 * have sessions. The next one is for whoever was served longest ago of all who want something: a user
 * whose sandboxes wait for packages, or who asks which versions there are, and, as one more user, all
 * templates that are to be ready before they are used. What several users want comes as soon as it
 * would for any of them. So who wants much waits for himself.
 *
 * What nobody waits for any more is forgotten, unless a template wants it, or it was begun: then it will
 * be of use to the next one who asks. What has failed is remembered for a while, for templates,
 * which are asked for again and again.
 */

#define RETRY_MS  600000u /* after a failure, if nobody asks */
#define TEMPLATES ((uid_t)-1)

static void need_free(struct layer_need *n)
{
	free((char *)n->image);
	free((char *)n->language);
	free((char *)n->packages);
}

void install_forget(struct installer *in, struct install *job)
{
	TAILQ_REMOVE(&in->installs, job, link);
	need_free(&job->need);
	free(job);
}

struct install *install_new(struct installer *in, const char *key, const struct layer_need *need)
{
	struct install *job = calloc(1, sizeof(*job));
	bool bad = false;

	if (!job)
		return NULL;
	memcpy(job->key, key, sizeof(job->key));
	job->need = *need;
	job->need.image = install_copy(need->image, &bad);
	job->need.language = install_copy(need->language, &bad);
	job->need.packages = install_copy(need->packages, &bad);
	if (bad) {
		need_free(&job->need);
		free(job);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&in->installs, job, link);
	return job;
}

struct install *install_find(const struct installer *in, const char *key)
{
	struct install *job;

	TAILQ_FOREACH(job, &in->installs, link) {
		if (strcmp(job->key, key) == 0)
			return job;
	}
	return NULL;
}

/* ---- what is forgotten ---- */

static void forget_old_failures(struct installer *in)
{
	struct install *job, *following;

	for (job = TAILQ_FIRST(&in->installs); job; job = following) {
		following = TAILQ_NEXT(job, link);
		if (job->step == INSTALL_FAILED &&
		    uv_now(in->vm->ctx.loop) - job->ended_at >= RETRY_MS)
			install_forget(in, job);
	}
}

void install_unwanted(struct installer *in, const char *key)
{
	struct install *job = install_find(in, key);
	const struct sandbox *s;

	if (!job || job->step != INSTALL_QUEUED || job->prepared || job->ask)
		return;
	TAILQ_FOREACH(s, &in->waiters, template_link) {
		if (install_waits(s, job))
			return;
	}
	install_forget(in, job);
}

/* ---- whose turn it is ---- */

/* How many turns ago did somebody have one? Return: INSTALL_TURNS if that is not known any more. */
static unsigned turns_since(const struct installer *in, uid_t user)
{
	unsigned n = 0;

	while (n < in->nserved && in->served[n] != user)
		n++;
	return n < in->nserved ? n : INSTALL_TURNS;
}

static void serve(struct installer *in, uid_t user)
{
	const unsigned since = turns_since(in, user);
	const unsigned later = MIN(since, MIN(in->nserved, INSTALL_TURNS - 1));

	memmove(in->served + 1, in->served, later * sizeof(*in->served));
	in->served[0] = user;
	in->nserved = MAX(in->nserved, later + 1);
}

struct choice {
	struct install *job;
	uid_t user;
	unsigned since;
};

/* The first of those who were served at the same time stays. */
static void consider(const struct installer *in, struct install *job, uid_t user, struct choice *c)
{
	const unsigned since = turns_since(in, user);

	if (job->step == INSTALL_QUEUED && (!c->job || since > c->since))
		*c = (struct choice){job, user, since};
}

struct install *install_choose(struct installer *in)
{
	struct choice c = {NULL, 0, 0};
	const struct sandbox *s;
	struct install *job;

	/* Who waits for packages comes before who only asks. */
	TAILQ_FOREACH(s, &in->waiters, template_link) {
		job = s->state == SANDBOX_CLOSING ? NULL : install_find(in, s->layer_key);
		if (job)
			consider(in, job, s->ticket.owner, &c);
	}
	TAILQ_FOREACH(job, &in->installs, link) {
		if (job->prepared)
			consider(in, job, TEMPLATES, &c);
		for (const struct install_ask *a = job->ask; a; a = a->next)
			consider(in, job, a->owner, &c);
	}
	if (c.job)
		serve(in, c.user);
	return c.job;
}

/* ---- asking ---- */

int installer_ask(struct installer *in, const struct layer_need *need, struct sandbox *s,
		  struct problem *ret_problem)
{
	char key[DIGEST_HEX];
	struct install *job;
	const char *why;
	int r = layer_key(in->vm->backends.images, need, key, &why);

	if (r == 0 && (!in->script || !in->vm->ctx.spawner || in->vm->ctx.spawner_lost)) {
		why = "the installer's files are missing";
		r = -ENOENT;
	}
	forget_old_failures(in);
	job = r == 0 ? install_find(in, key) : NULL;
	if (job && !s && job->step == INSTALL_FAILED) {
		*ret_problem = job->problem;
		return -EAGAIN;
	}
	if (r == 0 && !job) {
		job = install_new(in, key, need);
		why = "there is no memory";
		r = -ENOMEM;
	}
	if (!job) {
		problem_set(ret_problem, PROBLEM_PACKAGES_FAILED, "",
			    "the packages can't be installed: %s", why);
		return r;
	}
	if (job->step == INSTALL_FAILED) {
		job->step = INSTALL_QUEUED;
		job->line[0] = job->problem.code[0] = '\0';
	}
	job->prepared = job->prepared || !s;
	if (s)
		installer_wait(in, s, job);
	install_next(in);
	return 0;
}
