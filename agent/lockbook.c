/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds and who waits for which locks. */
#include "lockbook.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* Circles longer than this, or in a thicker crowd, are not looked for: a wait can be interrupted. */
#define CIRCLE_DEPTH 10u
#define CIRCLE_STEPS 2000u

void lockbook_init(struct lockbook *b)
{
	*b = (struct lockbook){.nholders = 0};
	LIST_INIT(&b->holders);
	TAILQ_INIT(&b->waiters);
}

static bool same_file(struct lock_file a, struct lock_file b)
{
	return a.ino == b.ino && a.dev == b.dev;
}

struct lock_holder *lockbook_find(const struct lockbook *b, struct lock_file file, uint64_t owner)
{
	struct lock_holder *h;

	LIST_FOREACH(h, &b->holders, link)
	{
		if (h->owner == owner && same_file(h->file, file))
			break;
	}
	return h;
}

struct lock_holder *lockbook_new(struct lockbook *b, struct lock_file file, uint64_t owner,
				 uint64_t handle)
{
	struct lock_holder *h = b->nholders < LOCKBOOK_HOLDERS ? calloc(1, sizeof(*h)) : NULL;

	if (!h)
		return NULL;
	h->file = file;
	h->owner = owner;
	h->handle = handle;
	h->fd = -1;
	LIST_INSERT_HEAD(&b->holders, h, link);
	b->nholders++;
	return h;
}

void lockbook_free(struct lockbook *b, struct lock_holder *h)
{
	struct lock_range *r;

	while ((r = h->ranges)) {
		h->ranges = r->next;
		b->nranges--;
		free(r);
	}
	LIST_REMOVE(h, link);
	b->nholders--;
	free(h);
}

bool lockbook_empty(const struct lock_holder *h)
{
	return !h->ranges && h->whole == PROTO_UNLOCK && h->waits == 0;
}

int lockbook_reserve(const struct lockbook *b, struct lock_spare *ret_spare)
{
	*ret_spare = (struct lock_spare){.range = {NULL, NULL}};
	if (b->nranges >= LOCKBOOK_RANGES)
		return -ENOLCK;
	for (int i = 0; i < 2; i++) {
		ret_spare->range[i] = malloc(sizeof(struct lock_range));
		if (!ret_spare->range[i]) {
			lockbook_unreserve(ret_spare);
			return -ENOLCK;
		}
	}
	return 0;
}

void lockbook_unreserve(struct lock_spare *spare)
{
	for (int i = 0; i < 2; i++) {
		free(spare->range[i]);
		spare->range[i] = NULL;
	}
}

static struct lock_range *range_take(struct lockbook *b, struct lock_spare *spare,
				     const struct lock_range *value)
{
	int i = spare->range[0] ? 0 : 1;
	struct lock_range *r = spare->range[i];

	assert(r); /* as many as can be needed were laid by */
	spare->range[i] = NULL;
	*r = *value;
	b->nranges++;
	return r;
}

static void range_remove(struct lockbook *b, struct lock_range **p)
{
	struct lock_range *r = *p;

	*p = r->next;
	b->nranges--;
	free(r);
}

/* Nobody holds @start to @end any more. Return: where a range that begins there belongs. */
static struct lock_range **cut(struct lockbook *b, struct lock_range **p, uint64_t start,
			       uint64_t end, struct lock_spare *spare)
{
	while (*p && (*p)->start <= end) {
		struct lock_range *r = *p;

		if (r->end < start) {
			p = &r->next;
		} else if (r->start < start) {
			/* What lies behind the hole, if anything does, becomes a range of its own. */
			if (r->end > end) {
				struct lock_range rest = {r->next, end + 1, r->end, r->type};

				r->next = range_take(b, spare, &rest);
			}
			r->end = start - 1;
			p = &r->next;
		} else if (r->end > end) {
			r->start = end + 1;
			break;
		} else {
			range_remove(b, p);
		}
	}
	return p;
}

/* Makes one of neighbours that are alike. */
static void merge(struct lockbook *b, struct lock_range *r)
{
	while (r && r->next) {
		if (r->type == r->next->type && r->end + 1 == r->next->start) {
			r->end = r->next->end;
			range_remove(b, &r->next);
		} else {
			r = r->next;
		}
	}
}

void lockbook_apply(struct lockbook *b, struct lock_holder *h, const struct lock_ask *ask,
		    struct lock_spare *spare)
{
	h->pid = ask->pid ? ask->pid : h->pid;
	if (ask->whole) {
		h->whole = ask->type;
	} else {
		struct lock_range **p = cut(b, &h->ranges, ask->start, ask->end, spare);

		if (ask->type != PROTO_UNLOCK) {
			struct lock_range value = {*p, ask->start, ask->end, ask->type};

			*p = range_take(b, spare, &value);
			merge(b, h->ranges);
		}
	}
	lockbook_unreserve(spare);
}

static bool excludes(enum proto_lock_type a, enum proto_lock_type b)
{
	return a != PROTO_UNLOCK && b != PROTO_UNLOCK &&
	       (a == PROTO_LOCK_EXCLUSIVE || b == PROTO_LOCK_EXCLUSIVE);
}

static bool in_the_way(const struct lock_holder *h, const struct lock_ask *ask,
		       const struct lock_range **ret_range)
{
	const struct lock_range *r;

	if (ask->whole)
		return excludes(h->whole, ask->type);
	for (r = h->ranges; r && r->start <= ask->end; r = r->next) {
		if (r->end >= ask->start && excludes(r->type, ask->type)) {
			if (ret_range)
				*ret_range = r;
			return true;
		}
	}
	return false;
}

struct lock_holder *lockbook_conflict(const struct lockbook *b, const struct lock_ask *ask,
				      const struct lock_holder *after,
				      const struct lock_range **ret_range)
{
	struct lock_holder *h = after ? LIST_NEXT(after, link) : LIST_FIRST(&b->holders);

	for (; h; h = LIST_NEXT(h, link)) {
		if (h->owner != ask->owner && same_file(h->file, ask->file) &&
		    in_the_way(h, ask, ret_range))
			break;
	}
	return h;
}

/* Does somebody who is in the way of @ask wait, over corners, for @owner? */
static bool waits_for(const struct lockbook *b, const struct lock_ask *ask, uint64_t owner,
		      unsigned depth, unsigned *steps)
{
	const struct lock_holder *h = NULL;
	const struct lock_waiter *w;

	while ((h = lockbook_conflict(b, ask, h, NULL))) {
		if (h->owner == owner)
			return true;
		TAILQ_FOREACH(w, &b->waiters, link) {
			if (w->ask.owner != h->owner || w->ask.whole)
				continue;
			if (depth == 0 || *steps == 0)
				return false;
			(*steps)--;
			if (waits_for(b, &w->ask, owner, depth - 1, steps))
				return true;
		}
	}
	return false;
}

bool lockbook_deadlocks(const struct lockbook *b, const struct lock_ask *ask)
{
	unsigned steps = CIRCLE_STEPS;

	/* flock(2) knows no EDEADLK. */
	return !ask->whole && waits_for(b, ask, ask->owner, CIRCLE_DEPTH, &steps);
}
