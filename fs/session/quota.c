/* SPDX-License-Identifier: Apache-2.0 */
/* Limits per user: memory of the daemon for texts, and disk space for output. See quota.h. */
#include "quota.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "vm/base/util.h"
#include "complaint.h"
#include "fs.h"
#include "vm/base/problem.h"
#include "job.h"

#define QUOTA_OPEN_MORE 64u /* more for `error`, which explains it, and `ctl`, which can end it */

static uint64_t kept_bytes(const struct problem_kept *k)
{
	return k->there ? sizeof(*k->there) : 0;
}

static uint64_t front_bytes(const struct front *f)
{
	return f->next_stdin.len + f->last_code.len + kept_bytes(&f->error);
}

static uint64_t session_bytes(const struct session *s)
{
	uint64_t n = sizeof(*s) + settings_bytes(&s->settings) + front_bytes(&s->front) +
		     s->changes.reviewed.len + s->changes.asked.len + s->file_events.log.len +
		     s->file_events.blind.len + kept_bytes(&s->standing) + kept_bytes(&s->closed) +
		     kept_bytes(&s->asleep.unfit) + s->held_bytes;
	const struct scratch_file *f;
	const struct checkpoint *cp;
	const struct run *r;
	const struct job *j;

	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		n += sizeof(*cp) + settings_bytes(&cp->settings) + kept_bytes(&cp->problem);
	TAILQ_FOREACH(f, &s->scratch.files, link)
		n += f->data.len;
	LIST_FOREACH(r, &s->kept_runs, kept) /* those that have ended keep their code */
		n += sizeof(*r) + r->code.len + r->env.len + feed_bytes(&r->feed) + r->input.len +
		     r->rerun.text.len + kept_bytes(&r->problem);
	TAILQ_FOREACH(j, &s->jobs, link)
		n += sizeof(*j) + job_settings_bytes(&j->settings) + front_bytes(&j->front);
	return n;
}

/* ---- sums ---- */

#define SUM_WORTH 16u /* a sum over so many sessions is made each time */

/* Does a user certainly have no more than @limit with @more? Return: false, if that is to be found out. */
static bool known_fit(struct roster_sum *sum, uint64_t more, uint64_t limit)
{
	if (!sum->left || sum->bytes > limit || more > limit - sum->bytes)
		return false;
	sum->left--;
	sum->bytes += more;
	return true;
}

/* It was found out that they have @bytes now. */
static void know(const struct fs *fs, struct roster_sum *sum, uint64_t bytes)
{
	*sum = (struct roster_sum){.bytes = bytes,
				   .left = (fs->roster.n - fs->roster.nfree) / SUM_WORTH};
}

/* What all sessions and open handles of a user take now, in bytes. */
static uint64_t quota_used(const struct fs *fs, uid_t uid)
{
	const struct opener *o = handle_opener(&fs->handles, uid);
	const struct session *s;
	const struct handle *h;
	uint64_t n = 0;

	if (roster_user(&fs->roster, uid))
		LIST_FOREACH(s, &fs->sessions, kept)
			if (s->uid == uid)
				n += session_bytes(s);
	if (o)
		LIST_FOREACH(h, &o->handles, opened)
			n += handle_bytes(h);
	return n;
}

/* Return: whether they may have @more. */
static bool texts_fit(struct fs *fs, uid_t uid, size_t more)
{
	struct roster_user *u = roster_user(&fs->roster, uid);
	uint64_t bytes;

	if (u && known_fit(&u->texts, more, QUOTA_BYTES))
		return true;
	bytes = quota_used(fs, uid) + more;
	if (u)
		know(fs, &u->texts, bytes);
	return bytes <= QUOTA_BYTES;
}

uid_t quota_whose(const struct fs *fs, const struct session *s)
{
	return s ? s->uid : fs->caller;
}

static int refuse(struct fs *fs, struct session *s, const struct problem *p)
{
	if (s)
		session_problem(s, p);
	else
		complaint_tell(fs, quota_whose(fs, s), p);
	return -EDQUOT;
}

int quota_open(struct fs *fs, const struct node *n)
{
	const struct opener *o = handle_opener(&fs->handles, quota_whose(fs, n->s));
	const bool helps =
		n->kind == NODE_ERROR || n->kind == NODE_ROOT_ERROR || n->kind == NODE_CTL;
	struct problem p = {0};

	/* A caller who is not the owner is privileged: no limit. */
	if (!o || o->uid != fs->caller || o->count < QUOTA_OPEN + (helps ? QUOTA_OPEN_MORE : 0))
		return 0;
	problem_set(&p, PROBLEM_TOO_MANY_OPEN, "Close some.",
		    "%u files and directories of this mount are open, which is all that one user "
		    "may have",
		    QUOTA_OPEN);
	return refuse(fs, n->s, &p);
}

bool quota_fits(struct fs *fs, struct session *s, size_t more)
{
	return texts_fit(fs, quota_whose(fs, s), more);
}

int quota_check(struct fs *fs, struct session *s, size_t more)
{
	struct problem p = {0};

	if (quota_fits(fs, s, more))
		return 0;
	problem_set(
		&p, PROBLEM_TOO_MUCH_TEXT,
		"Wait until runs have ended, close what is open, remove old runs (rmdir runs/N), "
		"or "
		"put the data into files/.",
		"code, standard input and texts that are open, wait or are kept take %u MiB of "
		"memory, which is all that one user may have",
		QUOTA_BYTES >> 20);
	return refuse(fs, s, &p);
}

int quota_take(struct session *s, size_t from, size_t to)
{
	return to > from ? quota_check(s->fs, s, to - from) : 0;
}

/* ---- what is saved ---- */

/* What several checkpoints and copies of a user share is there once, and so are the bases of machines' memory. So all are
 * collected, and each is counted once. */
struct holding {
	uid_t uid;
	const struct saved *saved;
};

static int by_user(const void *a, const void *b)
{
	const struct holding *x = a, *y = b;

	if (x->uid != y->uid)
		return x->uid < y->uid ? -1 : 1;
	return (uintptr_t)x->saved < (uintptr_t)y->saved ? -1 : x->saved != y->saved;
}

static int by_base(const void *a, const void *b)
{
	const struct holding *x = a, *y = b;

	if (x->uid != y->uid)
		return x->uid < y->uid ? -1 : 1;
	return saved_compare_bases(x->saved, y->saved);
}

static void add_saved(struct buf *all, uid_t uid, const struct saved *saved)
{
	const struct holding h = {.uid = uid, .saved = saved};

	if (saved)
		(void)buf_append(all, &h, sizeof(h));
}

/* @before: what it woke from as well. */
static void add_saved_of(struct buf *all, uid_t uid, const struct session *s, bool before)
{
	const struct checkpoint *cp;

	add_saved(all, uid, s->asleep.saved);
	if (before)
		add_saved(all, uid, s->asleep.before);
	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		add_saved(all, uid, cp->saved);
}

/* The sum of @bytes, of each that is another one in that order. */
static uint64_t sum_once(struct buf *all, int (*order)(const void *a, const void *b),
			 uint64_t (*bytes)(const struct saved *s))
{
	const size_t count = all->len / sizeof(struct holding);
	const struct holding *h = (const void *)all->data;
	uint64_t n = 0;

	if (count)
		qsort(all->data, count, sizeof(*h), order);
	for (size_t i = 0; i < count; i++)
		if (!i || order(&h[i - 1], &h[i]) != 0)
			n += bytes(h[i].saved);
	return n;
}

/* Empties @all. Return: what it takes, UINT64_MAX: there was no memory to collect it. */
static uint64_t sum_up(struct buf *all)
{
	const uint64_t n = all->failed ? UINT64_MAX
				       : sum_once(all, by_user, saved_bytes) +
						 sum_once(all, by_base, saved_base_bytes);

	buf_clear(all);
	return n;
}

uint64_t quota_saved_total(const struct fs *fs)
{
	const struct session *s;
	struct buf all = {0};

	LIST_FOREACH(s, &fs->sessions, kept)
		add_saved_of(&all, 0, s, true); /* what users have in common counts once as well */
	return sum_up(&all);
}

/* Of one user, with @more of @of, which may be instead of what that one woke from: what others have of that stays. Likewise. */
static uint64_t saved_by(const struct fs *fs, const struct session *of, const struct saved *more)
{
	const struct session *s;
	struct buf all = {0};

	add_saved(&all, of->uid, more);
	LIST_FOREACH(s, &fs->sessions, kept)
		if (s->uid == of->uid)
			add_saved_of(&all, s->uid, s, s != of);
	return sum_up(&all);
}

int quota_saved(const struct fs *fs, const struct session *s, const struct saved *saved,
		struct problem *why)
{
	struct roster_user *u = roster_user(&fs->roster, s->uid);
	const uint64_t limit = fs->conf->saved_bytes, more = saved ? saved_bytes(saved) : 1;
	uint64_t n;

	if (!limit || (u && known_fit(&u->saved, more, limit)))
		return 0;
	n = saved_by(fs, s, saved);
	if (u)
		know(fs, &u->saved, n);
	if (n < limit || (n == limit && saved))
		return 0;
	problem_set(why, PROBLEM_TOO_MUCH_SAVED,
		    "Remove checkpoints (rmdir checkpoints/NAME), or sessions that are asleep.",
		    "what is saved of this user's sessions %s %" PRIu64
		    " MiB, and may take %" PRIu64,
		    saved ? "would take" : "takes", quota_mib(n), limit >> 20);
	return -EDQUOT;
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
