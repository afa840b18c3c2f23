/* SPDX-License-Identifier: Apache-2.0 */
/* All sessions that can be found. See roster.h. */
#include "roster.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ino.h"
#include "session.h"
#include "vm/base/util.h"

#define ROSTER_AT_FIRST 64u

struct roster_slot {
	struct session *s; /* NULL: free */
	/* Of a free one: that became free after it, and before, and one more; 0: none. */
	uint32_t next, prev;
	uint64_t freed; /* of a free one: when, as last_freed */
	/* Of one that was touched: the next of them, and one more; ROSTER_END: there is none; 0: it is none. */
	uint32_t next_touched;
	uint16_t generation;
	bool said; /* while it is read: by a record */
};

#define ROSTER_END (ROSTER_MAX + 1)

/* ---- names ---- */

static int compare(const struct session *a, const struct session *b)
{
	if (a->t != b->t)
		return a->t < b->t ? -1 : 1;
	return strcmp(a->name, b->name);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
RB_GENERATE_STATIC(roster_named, session, named, compare)
#pragma GCC diagnostic pop

struct session *roster_find(const struct roster *ro, const struct conf_template *t,
			    const char *name)
{
	struct session *s = RB_ROOT(&ro->named);
	int order;

	while (s) {
		order = s->t == t ? strcmp(name, s->name) : t < s->t ? -1 : 1;
		if (order == 0)
			break;
		s = order < 0 ? RB_LEFT(s, named) : RB_RIGHT(s, named);
	}
	return s;
}

struct session *roster_first(const struct roster *ro, const struct conf_template *t)
{
	struct session *s = RB_ROOT(&ro->named), *first = NULL;

	while (s) {
		if (s->t == t)
			first = s;
		s = s->t >= t ? RB_LEFT(s, named) : RB_RIGHT(s, named);
	}
	return first;
}

struct session *roster_next(struct session *s)
{
	struct session *next = roster_named_RB_NEXT(
		s); /* libuv's RB_NEXT() has lost an argument between its versions */

	return next && next->t == s->t ? next : NULL;
}

/* ---- users ---- */

struct roster_user *roster_user(const struct roster *ro, uid_t uid)
{
	for (unsigned i = 0; i < ro->nusers; i++) {
		struct roster_user *u = &ro->users[i];

		if (u->uid == uid && (u->n || u->removed))
			return u;
	}
	return NULL;
}

#define SUM_WORTH 16u /* a sum over so many sessions is made each time */

bool roster_sum_fits(struct roster_sum *sum, uint64_t more, uint64_t limit)
{
	if (!sum->left || sum->bytes > limit || more > limit - sum->bytes)
		return false;
	sum->left--;
	sum->bytes += more;
	return true;
}

void roster_sum_know(const struct roster *ro, struct roster_sum *sum, uint64_t bytes)
{
	*sum = (struct roster_sum){.bytes = bytes, .left = (ro->n - ro->nfree) / SUM_WORTH};
}

/* Return: their entry, a new one if they have none; NULL if out of memory. */
static struct roster_user *take_user(struct roster *ro, uid_t uid)
{
	struct roster_user *u = roster_user(ro, uid), *more;

	for (unsigned i = 0; i < ro->nusers && !u; i++)
		if (!ro->users[i].n && !ro->users[i].removed)
			u = &ro->users[i];
	if (!u) {
		more = reallocarray(ro->users, ro->nusers + 1, sizeof(*more));
		if (!more)
			return NULL;
		ro->users = more;
		u = &more[ro->nusers++];
		*u = (struct roster_user){0};
	}
	if (!u->n && !u->removed)
		*u = (struct roster_user){.uid = uid};
	return u;
}

unsigned roster_of(const struct roster *ro, uid_t uid, bool removed)
{
	const struct roster_user *u = roster_user(ro, uid);

	return !u ? 0 : removed ? u->removed : u->n;
}

/* ---- slots ---- */

void roster_fini(struct roster *ro)
{
	free(ro->at);
	free(ro->users);
	*ro = (struct roster){0};
}

struct session *roster_at(const struct roster *ro, unsigned i)
{
	return i < ro->n ? ro->at[i].s : NULL;
}

unsigned roster_generation(const struct roster *ro, unsigned slot)
{
	return slot < ro->n ? ro->at[slot].generation : 0;
}

/* There is memory for one more slot. */
static bool make_room(struct roster *ro)
{
	const unsigned room = ro->room ? 2 * ro->room : ROSTER_AT_FIRST;
	struct roster_slot *at;

	if (ro->n < ro->room)
		return true;
	at = reallocarray(ro->at, room, sizeof(*at));
	if (!at)
		return false;
	ro->at = at;
	ro->room = room;
	return true;
}

int roster_reserve(struct roster *ro, uid_t uid)
{
	const bool rested = ro->nfree > ROSTER_REST || ro->n == ROSTER_MAX;

	if (rested && !ro->nfree)
		return -ENOSPC;
	if ((!rested && !make_room(ro)) || !take_user(ro, uid))
		return -ENOMEM;
	return (int)(rested ? ro->oldest - 1 : ro->n);
}

static void touch(struct roster *ro, unsigned slot)
{
	if (ro->at[slot].next_touched)
		return;
	ro->at[slot].next_touched = ro->touched ? ro->touched : ROSTER_END;
	ro->touched = slot + 1;
}

/* Makes a slot the one that became free last. */
static void link_free(struct roster *ro, unsigned slot)
{
	ro->at[slot].next = 0;
	ro->at[slot].prev = ro->newest;
	if (ro->newest)
		ro->at[ro->newest - 1].next = slot + 1;
	else
		ro->oldest = slot + 1;
	ro->newest = slot + 1;
	ro->nfree++;
}

static void add_free(struct roster *ro, unsigned slot)
{
	ro->at[slot].freed = ++ro->last_freed;
	touch(ro, slot);
	link_free(ro, slot);
}

/* Makes a free slot the one that is taken next. */
static void put_first(struct roster *ro, unsigned slot)
{
	const unsigned before = ro->at[slot].prev, behind = ro->at[slot].next;

	if (ro->oldest == slot + 1)
		return;
	ro->at[before - 1].next = behind;
	if (behind)
		ro->at[behind - 1].prev = before;
	else
		ro->newest = before;
	ro->at[slot].prev = 0;
	ro->at[slot].next = ro->oldest;
	ro->at[ro->oldest - 1].prev = slot + 1;
	ro->oldest = slot + 1;
}

int roster_reserve_at(struct roster *ro, unsigned slot, unsigned generation, uid_t uid)
{
	if (slot >= ROSTER_MAX || generation > INO_GENERATIONS || roster_at(ro, slot))
		return -EINVAL;
	while (ro->n <= slot) {
		if (!make_room(ro))
			return -ENOMEM;
		ro->at[ro->n] = (struct roster_slot){0};
		add_free(ro, ro->n++);
	}
	if (!take_user(ro, uid))
		return -ENOMEM;
	put_first(ro, slot);
	ro->at[slot].generation = (uint16_t)generation;
	return (int)slot;
}

bool roster_remember(struct roster *ro, uid_t uid)
{
	struct roster_user *u = take_user(ro, uid);

	if (u)
		u->removed++;
	return u;
}

static void take_slot(struct roster *ro, unsigned slot)
{
	if (slot == ro->n) {
		ro->at[ro->n++] = (struct roster_slot){0};
		return;
	}
	touch(ro, slot);
	assert(slot == ro->oldest - 1);
	ro->oldest = ro->at[slot].next;
	if (ro->oldest)
		ro->at[ro->oldest - 1].prev = 0;
	else
		ro->newest = 0;
	ro->nfree--;
}

void roster_put(struct roster *ro, struct session *s)
{
	struct roster_user *u = take_user(ro, s->uid);

	assert(u); /* roster_reserve() */
	take_slot(ro, s->slot);
	ro->at[s->slot].s = s;
	(void)RB_INSERT(roster_named, &ro->named, s);
	u->n++;
}

void roster_drop(struct roster *ro, struct session *s)
{
	struct roster_slot *slot = &ro->at[s->slot];
	struct roster_user *u = roster_user(ro, s->uid);

	assert(slot->s == s && u);
	RB_REMOVE(roster_named, &ro->named, s);
	u->n--;
	u->removed++;
	slot->s = NULL;
	slot->generation = (slot->generation + 1) & INO_GENERATIONS;
	add_free(ro, s->slot);
}

void roster_forget(struct roster *ro, const struct session *s)
{
	roster_user(ro, s->uid)->removed--;
}

/* ---- for the next daemon ---- */

/* Never reuse. */
enum roster_tag {
	TAG_GENERATION = 1,
	TAG_FREED,
};

static unsigned slot_of(uint32_t number)
{
	return number && number != ROSTER_END ? number - 1 : ROSTER_MAX;
}

unsigned roster_touched(const struct roster *ro)
{
	return slot_of(ro->touched);
}

unsigned roster_next_touched(const struct roster *ro, unsigned at)
{
	return slot_of(ro->at[at].next_touched);
}

void roster_noted(struct roster *ro)
{
	while (ro->touched && ro->touched != ROSTER_END) {
		struct roster_slot *slot = &ro->at[ro->touched - 1];

		ro->touched = slot->next_touched;
		slot->next_touched = 0;
	}
	ro->touched = 0;
}

unsigned roster_free(const struct roster *ro)
{
	return slot_of(ro->oldest);
}

unsigned roster_next_free(const struct roster *ro, unsigned at)
{
	return slot_of(ro->at[at].next);
}

bool roster_put_free(const struct roster *ro, unsigned slot, struct buf *out)
{
	const struct roster_slot *at = &ro->at[slot];

	if (at->s)
		return false;
	record_u64(out, TAG_GENERATION, at->generation);
	record_u64(out, TAG_FREED, at->freed);
	return true;
}

static int get_field(struct roster_slot *slot, const struct record_field *f)
{
	uint64_t v = 0;
	int r;

	switch ((enum roster_tag)f->tag) {
	case TAG_GENERATION:
		r = record_get(f, 0, INO_GENERATIONS, &v);
		slot->generation = (uint16_t)v;
		return r;
	case TAG_FREED: return record_get(f, 1, UINT64_MAX / 2, &slot->freed);
	default: return 0;
	}
}

int roster_get_free(struct roster *ro, uint64_t slot, struct record_reader fields)
{
	struct roster_slot is = {0};
	struct record_field f;
	int r;

	if (slot >= ROSTER_MAX || roster_at(ro, (unsigned)slot))
		return -EBADMSG;
	while ((r = record_field(&fields, &f)) > 0) {
		r = get_field(&is, &f);
		if (r < 0)
			return r;
	}
	if (r < 0 || !is.freed)
		return -EBADMSG;
	while (ro->n <= slot) {
		if (!make_room(ro))
			return -ENOMEM;
		ro->at[ro->n++] = (struct roster_slot){0};
	}
	if (ro->at[slot].said)
		return -EBADMSG;
	ro->at[slot].generation = is.generation;
	ro->at[slot].freed = is.freed;
	ro->at[slot].said = true;
	return 0;
}

struct freed {
	uint64_t when;
	unsigned slot;
};

static int compare_freed(const void *a, const void *b)
{
	const struct freed *x = a, *y = b;

	if (x->when != y->when)
		return x->when < y->when ? -1 : 1;
	return (x->slot > y->slot) - (x->slot < y->slot);
}

int roster_join(struct roster *ro, unsigned *ret_lost)
{
	_cleanup_free_ struct freed *all = calloc(ro->n + 1, sizeof(*all));
	unsigned n = 0, lost = 0;

	if (!all)
		return -ENOMEM;
	for (unsigned i = 0; i < ro->n; i++) {
		if (ro->at[i].s)
			continue;
		if (ro->at[i].said)
			all[n++] = (struct freed){ro->at[i].freed, i};
		else
			lost++;
	}
	qsort(all, n, sizeof(*all), compare_freed);
	ro->oldest = ro->newest = ro->nfree = 0;
	for (unsigned i = 0; i < n; i++)
		link_free(ro, all[i].slot);
	if (n)
		ro->last_freed = MAX(ro->last_freed, all[n - 1].when);
	*ret_lost = lost;
	return 0;
}
