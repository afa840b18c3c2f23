/* SPDX-License-Identifier: Apache-2.0 */
/* Limits per user: memory of the daemon for texts, and disk space for output. See quota.h. */
#include "quota.h"

#include <errno.h>

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
	const struct question *q;
	const struct run *r;
	const struct job *j;

	n += s->connlog.log.len;
	TAILQ_FOREACH(q, &s->questions.list, link)
		n += question_bytes(q);
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

	if (u && roster_sum_fits(&u->texts, more, QUOTA_BYTES))
		return true;
	bytes = quota_used(fs, uid) + more;
	if (u)
		roster_sum_know(&fs->roster, &u->texts, bytes);
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
	const bool helps = n->kind == NODE_ERROR || n->kind == NODE_ROOT_ERROR ||
			   n->kind == NODE_CTL || n->kind == NODE_ROOT_QUOTA;
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

/* ---- output ---- */

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
