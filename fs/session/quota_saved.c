/* SPDX-License-Identifier: Apache-2.0 */
/* What is saved of users' sessions. See quota.h. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "fs.h"
#include "quota.h"
#include "session.h"
#include "vm/base/problem.h"
#include "vm/base/util.h"

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

/* @more of @of may be instead of what that one woke from: what others have of that stays. Likewise. */
uint64_t quota_saved_by(const struct fs *fs, uid_t uid, const struct session *of,
			const struct saved *more)
{
	const struct session *s;
	struct buf all = {0};

	add_saved(&all, uid, more);
	LIST_FOREACH(s, &fs->sessions, kept)
		if (s->uid == uid)
			add_saved_of(&all, s->uid, s, s != of);
	return sum_up(&all);
}

int quota_max_saved(const struct fs *fs, const struct session *s, const struct saved *saved,
		    struct problem *why)
{
	struct roster_user *u = roster_user(&fs->roster, s->uid);
	const uint64_t limit = fs->conf->saved_bytes, more = saved ? saved_bytes(saved) : 1;
	uint64_t n;

	if (!limit || (u && roster_sum_fits(&u->saved, more, limit)))
		return 0;
	n = quota_saved_by(fs, s->uid, s, saved);
	if (u)
		roster_sum_know(&fs->roster, &u->saved, n);
	if (n < limit || (n == limit && saved))
		return 0;
	problem_set(why, PROBLEM_TOO_MUCH_SAVED,
		    "Remove checkpoints (rmdir checkpoints/NAME), or sessions that are asleep.",
		    "what is saved of this user's sessions %s %" PRIu64
		    " MiB, and may take %" PRIu64,
		    saved ? "would take" : "takes", quota_mib(n), limit >> 20);
	return -EDQUOT;
}

/* What follows in that order, of each that is another one, is its user's. */
static void add_once(struct buf *all, int (*order)(const void *a, const void *b),
		     uint64_t (*bytes)(const struct saved *s), struct quota_count *users, size_t n)
{
	const size_t count = all->len / sizeof(struct holding);
	const struct holding *h = (const void *)all->data;
	struct quota_count *u = users;

	if (count)
		qsort(all->data, count, sizeof(*h), order);
	for (size_t i = 0; i < count; i++) {
		if (i && order(&h[i - 1], &h[i]) == 0)
			continue;
		if (u->uid != h[i].uid)
			for (u = users; u->uid != h[i].uid; u++)
				assert(u < users + n);
		u->disk += bytes(h[i].saved);
	}
}

static bool is_one_of(const struct quota_count *users, size_t n, uid_t uid)
{
	for (size_t i = 0; i < n; i++)
		if (users[i].uid == uid)
			return true;
	return false;
}

void quota_saved_each(const struct fs *fs, struct quota_count *users, size_t n)
{
	const struct session *s;
	struct buf all = {0};

	LIST_FOREACH(s, &fs->sessions, kept)
		if (is_one_of(users, n, s->uid))
			add_saved_of(&all, s->uid, s, true);
	for (size_t i = 0; all.failed && i < n; i++)
		users[i].disk = UINT64_MAX;
	if (!all.failed) {
		add_once(&all, by_user, saved_bytes, users, n);
		add_once(&all, by_base, saved_base_bytes, users, n);
	}
	buf_clear(&all);
}
