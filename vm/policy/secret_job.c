/* SPDX-License-Identifier: Apache-2.0 */
/* The job that fetches the value of a secret. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "job.h"
#include "vm/base/secret_list.h"
#include "vm/order/policy_internal.h"
#include "vm/spawn/server.h"

/* Whose sessions are there at all? If root has mounted, and not for himself alone, anybody's. */
static bool has_sessions(const struct policy *p, uid_t owner)
{
	return owner == getuid() || (p->others && getuid() == 0);
}

/* Where sandboxes, or the daemon, can write. Until the next call. Return: NULL if out of memory. */
static const char *const *written(const struct policy *p)
{
	static const char **dirs;
	const char *const own[] = {p->cache, p->runtime, p->state, p->spool};
	size_t n = 0;

	free(dirs);
	dirs = calloc(ARRAY_SIZE(own) + p->nviews * (VM_PATHS_MAX + 1) + 1, sizeof(*dirs));
	if (!dirs)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (*own[i])
			dirs[n++] = own[i];
	for (size_t i = 0; i < p->nviews; i++) {
		const struct sealed_view *v = &p->view[i];

		if (v->work)
			dirs[n++] = v->work;
		for (size_t k = 0; k < v->npaths; k++)
			if (v->path[k].write)
				dirs[n++] = v->path[k].source;
	}
	return dirs;
}

/* For this child alone: see struct secret_source. */
static char *hand_over(const char *value)
{
	static char
		copy[SECRET_VALUE_MAX + 2]; /* what is longer is no value, which is seen by that */

	if (!value)
		return NULL;
	snprintf(copy, sizeof(copy), "%s", value);
	return copy;
}

int secret_job(const struct policy *p, const struct order_secret *o, struct spawn_job *job)
{
	struct secret_source *s = &job->secret;
	const char *value;

	if (!has_sessions(p, o->owner))
		return -EPERM;
	*s = (struct secret_source){.name = o->name,
				    .owner = o->owner,
				    .group = o->group,
				    .mounter = getuid(),
				    .envp = job->envp,
				    .written = written(p)};
	if (!s->written)
		return -ENOMEM;
	s->secret = policy_secret(p, o->name, &value);
	if (s->secret && !secret_is_for(s->secret, o->owner, s->mounter))
		s->secret = NULL;
	if (s->secret)
		s->value = hand_over(value);
	job->argv[0] = "secret";
	for (int fd = SECRET_SOURCE_REQUEST; fd <= SECRET_SOURCE_WORDS; fd++)
		job->target[job->ntargets++] =
			(struct spawn_target){.from = (uint32_t)fd, .to = fd};
	job->flags = SPAWN_SECRET | SPAWN_TOOL;
	return 0;
}
