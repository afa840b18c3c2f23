/* SPDX-License-Identifier: Apache-2.0 */
/* What users have at once: sessions, checkpoints, disk. See quota.h. */
#include <errno.h>
#include <inttypes.h>

#include "fs.h"
#include "quota.h"
#include "session.h"
#include "vm/base/problem.h"

/* ---- sessions ---- */

static unsigned sessions_of_all(const struct fs *fs)
{
	return fs->roster.n - fs->roster.nfree;
}

int quota_session(const struct fs *fs, uid_t uid, struct problem *why)
{
	const unsigned most = quotas_of(&fs->conf->quota, uid).sessions;
	const unsigned all = fs->conf->quota.all.sessions;
	const unsigned n = roster_of(&fs->roster, uid, false);
	const unsigned removed = roster_of(&fs->roster, uid, true);

	if (most && n >= most)
		problem_set(why, PROBLEM_TOO_MANY_SESSIONS,
			    "Remove one: rmdir of its directory; the administrator sets the quota "
			    "(sessions).",
			    "this user has %u sessions of %u, as many as are allowed", n, most);
	else if (most && removed >= most)
		problem_set(why, PROBLEM_TOO_MANY_SESSIONS, "Close what is open of removed ones.",
			    "this user has as many sessions as are allowed: %u that were removed "
			    "and are open still, of %u",
			    removed, most);
	else if (all && sessions_of_all(fs) >= all)
		problem_set(why, PROBLEM_TOO_MANY_SESSIONS,
			    "Remove one, or wait until others do; the administrator sets the quota "
			    "(sessions, of all).",
			    "all users together have as many sessions as are allowed, %u", all);
	else
		return 0;
	return -EDQUOT;
}

/* ---- checkpoints ---- */

unsigned quota_checkpoints_used(const struct fs *fs, const uid_t *uid)
{
	const struct session *s;
	unsigned n = 0;

	LIST_FOREACH(s, &fs->sessions, kept)
		if (!uid || s->uid == *uid)
			n += s->checkpoints.n;
	return n;
}

int quota_checkpoint(const struct fs *fs, const struct session *s, unsigned instead,
		     struct problem *why)
{
	const unsigned most = quotas_of(&fs->conf->quota, s->uid).checkpoints;
	const unsigned all = fs->conf->quota.all.checkpoints;
	const unsigned n = most ? quota_checkpoints_used(fs, &s->uid) - instead : 0;

	if (most && n >= most)
		problem_set(why, PROBLEM_OVER_QUOTA,
			    "Remove some: rmdir checkpoints/NAME, also of other sessions; the "
			    "administrator sets the quota (checkpoints).",
			    "this user has %u checkpoints of %u, as many as are allowed", n, most);
	else if (all && quota_checkpoints_used(fs, NULL) - instead >= all)
		problem_set(why, PROBLEM_OVER_QUOTA,
			    "Remove some, or wait until others do; the administrator sets the "
			    "quota (checkpoints, of all).",
			    "all users together have as many checkpoints as are allowed, %u", all);
	else
		return 0;
	return -EDQUOT;
}

/* ---- the disk ---- */

/* But what is saved. */
static uint64_t rest_of_disk(const struct fs *fs, const uid_t *uid)
{
	const struct session *s;
	const struct run *r;
	uint64_t n = 0;

	LIST_FOREACH(s, &fs->sessions, kept) {
		if (uid && s->uid != *uid)
			continue;
		n += s->on_disk.bytes;
		LIST_FOREACH(r, &s->kept_runs, kept)
			n += run_bytes(r);
	}
	return n;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

void quota_count(const struct fs *fs, struct quota_count *users, size_t n)
{
	const struct session *s;
	const struct run *r;

	quota_saved_each(fs, users, n);
	LIST_FOREACH(s, &fs->sessions, kept) {
		struct quota_count *u = users;

		while (u < users + n && u->uid != s->uid)
			u++;
		if (u == users + n)
			continue;
		u->checkpoints += s->checkpoints.n;
		u->disk = sum(u->disk, s->on_disk.bytes);
		LIST_FOREACH(r, &s->kept_runs, kept)
			u->disk = sum(u->disk, run_bytes(r));
	}
}

uint64_t quota_disk_used(const struct fs *fs, const uid_t *uid)
{
	return sum(uid ? quota_saved_by(fs, *uid, NULL, NULL) : quota_saved_total(fs),
		   rest_of_disk(fs, uid));
}

static int too_much_of_one(uint64_t used, uint64_t limit, struct problem *why)
{
	problem_set(why, PROBLEM_OVER_QUOTA,
		    "Remove checkpoints, old runs (rmdir runs/N), or sessions; the administrator "
		    "sets the quota (disk).",
		    "what is kept of this user takes %" PRIu64 " MiB, and may take %" PRIu64,
		    quota_mib(used), limit >> 20);
	return -EDQUOT;
}

static int too_much_of_all(uint64_t limit, struct problem *why)
{
	problem_set(why, PROBLEM_OVER_QUOTA,
		    "Remove what is not needed, or wait until others do; the administrator sets "
		    "the quota (disk, of all).",
		    "what is kept of all users together takes all of the %" PRIu64
		    " MiB that it may take",
		    limit >> 20);
	return -EDQUOT;
}

/* Is it known without a look that @more fits? */
static bool known(struct roster_sum *sum, uint64_t more, uint64_t limit)
{
	return !limit || (sum && roster_sum_fits(sum, more, limit));
}

int quota_disk(struct fs *fs, uid_t uid, uint64_t more, struct problem *why)
{
	const uint64_t limit = quotas_of(&fs->conf->quota, uid).disk;
	const uint64_t all = fs->conf->quota.all.disk;
	struct roster_user *u = roster_user(&fs->roster, uid);
	uint64_t n;

	if (!known(u ? &u->disk : NULL, more, limit)) {
		n = sum(quota_disk_used(fs, &uid), more);
		if (u)
			roster_sum_know(&fs->roster, &u->disk, n);
		if (n > limit)
			return too_much_of_one(n, limit, why);
	}
	if (!known(&fs->all_disk, more, all)) {
		n = sum(quota_disk_used(fs, NULL), more);
		roster_sum_know(&fs->roster, &fs->all_disk, n);
		if (n > all)
			return too_much_of_all(all, why);
	}
	return 0;
}

/* What several have of it is there once: so a sum of both says more than there is. */
static int disk_saved(const struct session *s, const struct saved *saved, struct problem *why)
{
	const uint64_t limit = quotas_of(&s->fs->conf->quota, s->uid).disk;
	const uint64_t all = s->fs->conf->quota.all.disk, more = saved ? saved_bytes(saved) : 1;
	uint64_t n;

	if (limit) {
		n = sum(quota_saved_by(s->fs, s->uid, s, saved), rest_of_disk(s->fs, &s->uid));
		if (n > limit || (n == limit && !saved))
			return too_much_of_one(sum(n, !saved), limit, why);
	}
	if (all && sum(quota_disk_used(s->fs, NULL), more) > all)
		return too_much_of_all(all, why);
	return 0;
}

int quota_saved(const struct fs *fs, const struct session *s, const struct saved *saved,
		struct problem *why)
{
	const int e = quota_max_saved(fs, s, saved, why);

	return e < 0 ? e : disk_saved(s, saved, why);
}
