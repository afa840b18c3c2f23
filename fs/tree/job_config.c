/* SPDX-License-Identifier: Apache-2.0 */
/* The `config` of a job: what it reads as, and what is written to it. Its open handles are in settings_node.c. */
#include "nodes.h"

#include <errno.h>
#include <stdio.h>

#include "fs/session/fs.h"
#include "fs/session/job.h"
#include "fs/session/touch.h"
#include "vm/base/problem.h"

int job_config_render(const struct node *n, struct buf *out)
{
	return job_settings_render(&n->job->settings, out);
}

static unsigned lines_shown(const struct job *j)
{
	struct buf shown = {0};
	unsigned n = 0;

	if (job_settings_render(&j->settings, &shown) == 0) {
		for (size_t i = 0; i < shown.len; i++)
			n += shown.data[i] == '\n';
	}
	buf_clear(&shown);
	return n;
}

/* Makes settings of those there are, or of the defaults, and a text. */
static int read_settings(struct job *j, bool add, const char *text, size_t len,
			 struct job_settings *with, struct problem *why)
{
	const char *const languages[] = {j->s->settings.spec.language, NULL};
	int e = add ? job_settings_copy(with, &j->settings)
		    : job_settings_init(with, &j->s->settings);

	if (e < 0)
		return e;
	e = job_settings_parse(with, text, len, add ? lines_shown(j) : 0, &j->s->fs->conf->limits,
			       languages, why);
	if (e < 0 && j->of_session && why->code == PROBLEM_UNKNOWN_KEY)
		snprintf(why->fix, sizeof(why->fix),
			 "The keys of a named run are timeout_s, stdin, cwd and env.NAME.");
	return e;
}

/* The first setting that only a program of its own has, which a run of the session's interpreter is not; or NULL. */
static const char *of_programs(const struct job_settings *with)
{
	return with->argv.len		? "argv"
	       : with->language		? "language"
	       : with->tty		? "tty"
	       : with->nice != JOB_NICE ? "nice"
	       : with->root		? "user"
					: NULL;
}

/* Return: 0 or -EINVAL. */
static int suits(const struct job *j, const struct job_settings *with, struct problem *why)
{
	const char *key = j->of_session ? of_programs(with) : NULL;

	if (with->root && j->s->settings.spec.backend != VM_MICROVM)
		return problem_set(
			why, PROBLEM_NOT_ALLOWED,
			"Write user = user, or use a template with backend = microvm and "
			"root = yes.",
			"user: root is there in machines only, and this sandbox is none");
	if (with->root && !j->s->settings.spec.root)
		return problem_set(why, PROBLEM_NOT_ALLOWED,
				   "Write user = user, or ask the administrator for root = yes.",
				   "user: the template allows no root");
	return key ? problem_set(why, PROBLEM_INVALID, "Make a job: mkdir jobs/NAME.",
				 "%s: a run is code for the session's interpreter", key)
		   : 0;
}

/* A job that was started stays what it is. Return: 0 or -EBUSY. */
static int may_change(const struct job *j, const struct job_settings *with, struct problem *why)
{
	const char *key;

	if (!j->front.latest || !job_settings_frozen_change(&j->settings, with, &key))
		return 0;
	problem_set(why, PROBLEM_FROZEN,
		    j->of_session ? "Make another one: mkdir runs/NAME."
				  : "Make another job: mkdir jobs/NAME.",
		    j->of_session ? "%s cannot change once the run has its code"
				  : "%s cannot change after the start",
		    key);
	return -EBUSY;
}

int job_config_apply(struct job *j, bool add, const char *text, size_t len)
{
	struct job_settings with = {0};
	struct front *f = &j->front;
	struct problem why = {0};
	int e = read_settings(j, add, text, len, &with, &why);

	if (e == 0)
		e = suits(j, &with, &why);
	if (e == 0)
		e = may_change(j, &with, &why);
	if (e < 0) {
		job_settings_clear(&with);
		if (why.code) {
			front_problem(f, &why);
			f->config_error = true; /* until valid settings are written */
		}
		return e;
	}
	if (f->config_error)
		front_problem(f, &(struct problem){0});
	touch_job(j);
	job_settings_clear(&j->settings);
	j->settings = with;
	j->config_mtime = clock_now();
	job_resize(j);
	session_used(j->s);
	return 0;
}
