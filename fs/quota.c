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
	uint64_t n = s->next_stdin.len + s->last_code.len + s->changes.reviewed.len +
		     s->changes.asked.len + scratch_bytes(s);
	const struct run *r;

	TAILQ_FOREACH(r, &s->runs, link) /* those that have ended keep their code */
		n += r->code.len + r->input.len;
	return n;
}

uint64_t quota_used(const struct fs *fs, uid_t uid)
{
	const struct handle *h;
	uint64_t n = 0;

	for (unsigned i = 0; i < fs->nslots; i++)
		if (fs->slot[i] && fs->slot[i]->uid == uid)
			n += session_bytes(fs->slot[i]);
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

/* Output of runs that were removed stays as long as somebody has it open. */
static uint64_t removed_bytes(const struct fs *fs, uid_t uid)
{
	const struct handle *h;
	uint64_t n = 0;

	TAILQ_FOREACH(h, &fs->handles.open, link)
		if (h->uid == uid && h->r && h->s &&
		    (h->s->dead || session_run(h->s, h->r->number) != h->r))
			n += run_bytes(h->r);
	return n;
}

bool quota_disk_full(const struct fs *fs, uid_t uid)
{
	const struct depot *d = &fs->depot;
	const uint64_t stored = (uint64_t)d->nused * DEPOT_BLOCK + d->waiting;
	const uint64_t share = (stored + (uint64_t)MAX(d->room, 0)) / 4 * 3;
	const struct run *r;
	uint64_t n;

	if (!fs->conf->allow_other || stored <= share)
		return false;
	n = removed_bytes(fs, uid);
	for (unsigned i = 0; i < fs->nslots; i++) {
		if (!fs->slot[i] || fs->slot[i]->uid != uid)
			continue;
		TAILQ_FOREACH(r, &fs->slot[i]->runs, link)
			n += run_bytes(r);
	}
	return n > share;
}
