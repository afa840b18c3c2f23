/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the daemon's memory a user's texts take, and of the disk his output. See quota.h. */
#include "quota.h"

#include <errno.h>

#include "../vm/util.h"
#include "complaint.h"
#include "fs.h"
#include "problem.h"
#include "session.h"

static uint64_t session_bytes(const struct session *s)
{
	uint64_t n = sizeof(*s) + settings_bytes(&s->settings) + s->next_stdin.len +
		     s->last_code.len + s->changes.reviewed.len + s->changes.asked.len +
		     scratch_bytes(s);
	const struct run *r;

	LIST_FOREACH(r, &s->kept_runs, kept) /* those that have ended keep their code */
		n += sizeof(*r) + r->code.len + r->input.len;
	return n;
}

uint64_t quota_used(const struct fs *fs, uid_t uid)
{
	const struct session *s;
	const struct handle *h;
	uint64_t n = 0;

	LIST_FOREACH(s, &fs->sessions, kept)
		if (s->uid == uid)
			n += session_bytes(s);
	TAILQ_FOREACH(h, &fs->handles.open, link)
		if (h->uid == uid)
			n += h->text.len;
	return n;
}

int quota_check(struct fs *fs, struct session *s, size_t more)
{
	const uid_t uid = s ? s->uid : fs->caller;
	struct vm_problem p = {0};

	if (quota_used(fs, uid) + more <= QUOTA_BYTES)
		return 0;
	problem_refuse(
		&p, "too-much-text",
		"Wait until runs have ended, close what is open, remove old runs (rmdir runs/N), "
		"or "
		"put the data into files/.",
		"code, standard input and texts that are open, wait or are kept take %u MiB of "
		"memory, which is all that one user may have",
		QUOTA_BYTES >> 20);
	if (s)
		session_problem(s, &p);
	else
		complaint_tell(fs, uid, &p);
	return -EDQUOT;
}

int quota_take(struct fs *fs, struct session *s, size_t from, size_t to)
{
	return to > from ? quota_check(fs, s, to - from) : 0;
}

bool quota_disk_full(const struct fs *fs, uid_t uid)
{
	const struct depot *d = &fs->depot;
	const uint64_t stored = (uint64_t)d->nused * DEPOT_BLOCK + d->waiting;
	const uint64_t share = (stored + (uint64_t)MAX(d->room, 0)) / 4 * 3;
	const struct session *s;
	const struct run *r;
	uint64_t n = 0;

	if (!fs->conf->allow_other || stored <= share)
		return false;
	LIST_FOREACH(s, &fs->sessions, kept) {
		if (s->uid != uid)
			continue;
		/* Output of runs that were removed stays as long as somebody has it open. */
		LIST_FOREACH(r, &s->kept_runs, kept)
			n += run_bytes(r);
	}
	return n > share;
}
