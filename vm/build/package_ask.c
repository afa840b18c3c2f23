/* SPDX-License-Identifier: Apache-2.0 */
/* Asking which versions of packages there are: an installation of which nothing is kept. */
#include <errno.h>
#include <string.h>

#include "package_internal.h"

#define ASKS_USER 4u /* of one user, at once */
#define NEWEST	  "newest "

void package_ask_line(struct package_ask *ask, const char *line)
{
	const size_t len = strlen(ask->words), more = strlen(line);

	if (strncmp(line, NEWEST, strlen(NEWEST)) != 0)
		return;
	/* A line that may have been cut names another version. */
	if (more >= WORDS_LINE - 1 || len + more >= sizeof(ask->words))
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

static unsigned asks_of(const struct package_jobs *in, uid_t owner)
{
	const struct package_job *job;
	unsigned n = 0;

	TAILQ_FOREACH(job, &in->installs, link)
		for (const struct package_ask *a = job->ask; a; a = a->next)
			n += a->owner == owner;
	return n;
}

int package_jobs_versions(struct package_jobs *in, const struct backend_ops *ops,
			  const struct vm_offer_for *what, const char *packages, vm_offer_fn fn,
			  void *data)
{
	struct package_ask *ask;
	struct layer_need need;
	struct package_job *job;
	char key[DIGEST_HEX];
	const char *why;
	int r;

	package_jobs_need(in, ops, what->image_view, what->image, what->language, packages, &need);
	if (!in->script || !in->ctx->spawner || in->ctx->spawner_lost || in->ctx->closing)
		return -ENOENT;
	if (asks_of(in, what->owner) >= ASKS_USER)
		return -EBUSY;
	r = layer_key(in->images, &need, key, &why);
	if (r < 0)
		return r;
	ask = calloc(1, sizeof(*ask));
	job = package_job_find(in, key);
	if (ask && !job)
		job = package_job_new(in, key, &need);
	if (!ask || !job) {
		free(ask);
		return -ENOMEM;
	}
	*ask = (struct package_ask){.owner = what->owner, .fn = fn, .data = data};
	if (job->ask) {
		ask->next = job->ask->next;
		job->ask->next = ask;
		return 0;
	}
	job->ask = ask;
	package_job_next(in);
	return 0;
}
