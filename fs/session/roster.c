/* SPDX-License-Identifier: Apache-2.0 */
/* All sessions that can be found. See roster.h. */
#include "roster.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ino.h"
#include "session.h"

#define ROSTER_AT_FIRST 64u

struct roster_slot {
	struct session *s; /* NULL: free */
	uint32_t next;	   /* of a free one: that became free after it, and one more; 0: none */
	uint16_t generation;
};

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
	struct session *next = RB_NEXT(roster_named, NULL, s);

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

static void take_slot(struct roster *ro, unsigned slot)
{
	if (slot == ro->n) {
		ro->at[ro->n++] = (struct roster_slot){0};
		return;
	}
	assert(slot == ro->oldest - 1);
	ro->oldest = ro->at[slot].next;
	if (!ro->oldest)
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
	*slot = (struct roster_slot){.generation = (slot->generation + 1) & INO_GENERATIONS};
	if (ro->newest)
		ro->at[ro->newest - 1].next = s->slot + 1;
	else
		ro->oldest = s->slot + 1;
	ro->newest = s->slot + 1;
	ro->nfree++;
}

void roster_forget(struct roster *ro, const struct session *s)
{
	roster_user(ro, s->uid)->removed--;
}
