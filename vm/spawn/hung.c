/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that were given up a moment ago, because what they show of the host did not answer. */
#include "hung.h"

#include <errno.h>

#include "vm/base/util.h"

static void hash_string(uint64_t *h, const char *s)
{
	do
		*h = (*h ^ (unsigned char)*s) * 0x100000001b3ull; /* FNV-1a */
	while (*s++);
}

uint64_t hung_paths(const struct spawn_job *job)
{
	uint64_t h = 0xcbf29ce484222325ull;

	if (!job->jail)
		hash_string(&h, job->argv[0]);
	for (uint32_t i = 0; job->jail && i < job->jail->nmounts; i++) {
		const struct jail_mount *m = &job->jail->mounts[i];

		if (m->kind == JAIL_RO || m->kind == JAIL_RW)
			hash_string(&h, m->source);
	}
	return h;
}

void hung_note(struct hung *h, uint64_t what, int64_t until, const struct spawn_error *e)
{
	const size_t i = h->n % HUNG_MAX;

	if (e->error != -ETIMEDOUT)
		return;
	h->last[i].what = what;
	h->last[i].until = until;
	h->last[i].error = *e;
	h->n++;
}

bool hung_lately(const struct hung *h, uint64_t what, int64_t now, struct spawn_error *e)
{
	for (size_t i = 0; i < MIN(h->n, HUNG_MAX); i++) {
		if (h->last[i].what != what || now >= h->last[i].until)
			continue;
		*e = h->last[i].error;
		return true;
	}
	return false;
}
