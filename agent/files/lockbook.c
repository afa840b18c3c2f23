/* SPDX-License-Identifier: Apache-2.0 */
/* A table of locks, their holders and waiters. */
#include "lockbook.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* Circles longer than this, or in a thicker crowd, are not looked for: a wait can be interrupted. */
#define CIRCLE_DEPTH 10u
#define CIRCLE_STEPS 2000u

void lockbook_init(struct lockbook *b)
{
	*b = (struct lockbook){.share = {LOCKBOOK_HOLDERS, LOCKBOOK_RANGES}};
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

	LIST_FOREACH(h, &b->holders, link) {
		if (h->owner == owner && same_file(h->file, file))
			break;
	}
	return h;
}

/* What a user has. */
static struct lock_share taken(const struct lockbook *b, uint32_t uid)
{
	struct lock_share sum = {0, 0};
	const struct lock_holder *h;

	LIST_FOREACH(h, &b->holders, link) {
		if (h->uid == uid) {
			sum.holders++;
			sum.ranges += h->nranges;
		}
	}
	return sum;
}

struct lock_holder *lockbook_new(struct lockbook *b, const struct lock_ask *ask)
{
	struct lock_holder *h;

	if (b->nholders >= LOCKBOOK_HOLDERS || taken(b, ask->uid).holders >= b->share.holders)
		return NULL;
	h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	h->file = ask->file;
	h->owner = ask->owner;
	h->handle = ask->handle;
	h->uid = ask->uid;
	h->fd = -1;
	LIST_INSERT_HEAD(&b->holders, h, link);
	b->nholders++;
	return h;
}

static void count(struct lockbook *b, struct lock_holder *h, int n)
{
	b->nranges += (unsigned)n;
	h->nranges += (unsigned)n;
}

static void free_ranges(struct lock_range *r)
{
	struct lock_range *next;

	for (; r; r = next) {
		next = r->next;
		free(r);
	}
}

void lockbook_free(struct lockbook *b, struct lock_holder *h)
{
	b->nranges -= h->nranges;
	free_ranges(h->ranges);
	free_ranges(h->undo.was);
	LIST_REMOVE(h, link);
	b->nholders--;
	free(h);
}

bool lockbook_empty(const struct lock_holder *h)
{
	return !h->ranges && h->whole == PROTO_UNLOCK && h->waits == 0;
}

/* Does this leave a hole in the middle of a range? */
static bool splits(const struct lock_holder *h, const struct lock_ask *ask)
{
	const struct lock_range *r = h ? h->ranges : NULL;

	while (r && r->end < ask->start)
		r = r->next;
	return r && r->start < ask->start && r->end > ask->end;
}

int lockbook_reserve(const struct lockbook *b, const struct lock_holder *h,
		     const struct lock_ask *ask, struct lock_spare *ret_spare)
{
	const bool unlock = ask->type == PROTO_UNLOCK;
	const unsigned times = unlock ? 2 : 1;
	int need = unlock ? splits(h, ask) : 2;

	*ret_spare = (struct lock_spare){.range = {NULL, NULL}};
	if (ask->whole || !need)
		return 0;
	if (b->nranges >= LOCKBOOK_RANGES * times ||
	    taken(b, ask->uid).ranges >= b->share.ranges * times)
		return -ENOLCK;
	for (int i = 0; i < need; i++) {
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

static struct lock_range *range_take(struct lockbook *b, struct lock_holder *h,
				     struct lock_spare *spare, const struct lock_range *value)
{
	int i = spare->range[0] ? 0 : 1;
	struct lock_range *r = spare->range[i];

	assert(r); /* as many as can be needed were laid by */
	spare->range[i] = NULL;
	*r = *value;
	count(b, h, 1);
	return r;
}

static void range_remove(struct lockbook *b, struct lock_holder *h, struct lock_range **p)
{
	struct lock_range *r = *p;

	*p = r->next;
	count(b, h, -1);
	free(r);
}

/* Nobody holds @start to @end any more. Return: where a range that begins there belongs. */
static struct lock_range **cut(struct lockbook *b, struct lock_holder *h, uint64_t start,
			       uint64_t end, struct lock_spare *spare)
{
	struct lock_range **p = &h->ranges;

	while (*p && (*p)->start <= end) {
		struct lock_range *r = *p;

		if (r->end < start) {
			p = &r->next;
		} else if (r->start < start) {
			/* What lies behind the hole, if anything does, becomes a range of its own. */
			if (r->end > end) {
				struct lock_range rest = {r->next, end + 1, r->end, r->type};

				r->next = range_take(b, h, spare, &rest);
			}
			r->end = start - 1;
			p = &r->next;
		} else if (r->end > end) {
			r->start = end + 1;
			break;
		} else {
			range_remove(b, h, p);
		}
	}
	return p;
}

/* Makes one of neighbours that are alike. */
static void merge(struct lockbook *b, struct lock_holder *h)
{
	struct lock_range *r = h->ranges;

	while (r && r->next) {
		if (r->type == r->next->type && r->end + 1 == r->next->start) {
			r->end = r->next->end;
			range_remove(b, h, &r->next);
		} else {
			r = r->next;
		}
	}
}

struct lock_range lockbook_piece(const struct lock_range *list, uint64_t at, uint64_t end)
{
	struct lock_range piece = {NULL, at, end, PROTO_UNLOCK};

	while (list && list->end < at)
		list = list->next;
	if (list && list->start <= at) {
		piece.type = list->type;
		piece.end = list->end < end ? list->end : end;
	} else if (list && list->start <= end) {
		piece.end = list->start - 1;
	}
	return piece;
}

void lockbook_free_undo(struct lock_undo *u)
{
	free_ranges(u->was);
	u->was = NULL;
}

/* Return: how the last change is undone, which the holder forgets. */
static struct lock_undo take_undo(struct lockbook *b, struct lock_holder *h)
{
	const struct lock_undo u = h->undo;

	for (const struct lock_range *r = u.was; r; r = r->next)
		count(b, h, -1);
	h->undo = (struct lock_undo){.token = 0};
	return u;
}

static void forget_undo(struct lockbook *b, struct lock_holder *h)
{
	struct lock_undo u = take_undo(b, h);

	lockbook_free_undo(&u);
}

/* Keeps what a change is about to end. Without memory for that it can't be undone. */
static void keep_undo(struct lockbook *b, struct lock_holder *h, const struct lock_ask *ask)
{
	struct lock_undo *u = &h->undo;
	struct lock_range **last = &u->was, piece;
	uint64_t at = ask->start;

	forget_undo(b, h);
	if (!ask->token)
		return;
	*u = (struct lock_undo){.token = ask->token,
				.start = ask->start,
				.end = ask->end,
				.whole = ask->whole,
				.was_whole = h->whole};
	for (; !ask->whole && at <= ask->end; at = piece.end + 1) {
		piece = lockbook_piece(h->ranges, at, ask->end);
		if (piece.type == PROTO_UNLOCK)
			continue;
		*last = b->nranges < LOCKBOOK_RANGES ? malloc(sizeof(piece)) : NULL;
		if (!*last) {
			forget_undo(b, h);
			return;
		}
		**last = piece;
		last = &(*last)->next;
		count(b, h, 1);
	}
}

struct lock_undo lockbook_take_undo(struct lockbook *b, struct lock_holder *h, uint64_t token)
{
	if (token && h->undo.token == token)
		return take_undo(b, h);
	return (struct lock_undo){.token = 0};
}

void lockbook_apply(struct lockbook *b, struct lock_holder *h, const struct lock_ask *ask,
		    struct lock_spare *spare)
{
	keep_undo(b, h, ask);
	h->pid = ask->pid ? ask->pid : h->pid;
	if (ask->type != PROTO_UNLOCK && ask->handle)
		h->handle = ask->handle;
	if (ask->whole) {
		h->whole = ask->type;
	} else {
		struct lock_range **p = cut(b, h, ask->start, ask->end, spare);

		if (ask->type != PROTO_UNLOCK) {
			struct lock_range value = {*p, ask->start, ask->end, ask->type};

			*p = range_take(b, h, spare, &value);
			merge(b, h);
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

/* Does a holder that blocks @ask wait, directly or through others, for @owner? */
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
