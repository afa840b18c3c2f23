/* SPDX-License-Identifier: Apache-2.0 */
/* Synthetic addresses: one for each name that the guest has looked up. */
#include "alias.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vm/base/hash.h"
#include "vm/base/util.h"

static uint32_t slot_address(const struct aliases *t, const struct alias *a)
{
	return htonl(ALIAS_BASE + (uint32_t)(a - t->slots));
}

static int grow(struct aliases *t)
{
	const size_t cap = t->cap ? t->cap * 2 : 16;
	struct alias *slots = reallocarray(t->slots, cap, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	t->slots = slots;
	t->cap = cap;
	return 0;
}

/* The slot that nobody used for the longest time, if that is long enough to be forgotten. */
static struct alias *recycle(struct aliases *t, time_t now)
{
	struct alias *oldest = NULL;

	for (size_t i = 0; i < t->nslots; i++) {
		struct alias *a = &t->slots[i];

		if (a->users == 0 && now - a->used > 2 * ALIAS_TTL &&
		    (!oldest || a->used < oldest->used))
			oldest = a;
	}
	return oldest;
}

int alias_get(struct aliases *t, const char *name, time_t now, uint32_t *ret_address)
{
	const uint32_t hash = hash_str(name);
	struct alias *a = NULL;
	char *copy;

	for (size_t i = 0; i < t->nslots && !a; i++)
		if (t->slots[i].hash == hash && !strcmp(t->slots[i].name, name))
			a = &t->slots[i];
	if (!a) {
		if (t->nslots == ALIAS_MAX && !(a = recycle(t, now)))
			return -ENOSPC;
		if (!a && t->nslots == t->cap && grow(t) < 0)
			return -ENOMEM;
		copy = strdup(name);
		if (!copy)
			return -ENOMEM;
		if (!a) {
			a = &t->slots[t->nslots++];
			a->name = NULL;
		}
		free(a->name);
		*a = (struct alias){.name = copy, .hash = hash};
	}
	a->used = now;
	*ret_address = slot_address(t, a);
	return 0;
}

struct alias *alias_find(struct aliases *t, uint32_t address, time_t now)
{
	const uint32_t i = ntohl(address) - ALIAS_BASE;

	if (i >= t->nslots)
		return NULL;
	t->slots[i].used = now;
	return &t->slots[i];
}

void alias_fini(struct aliases *t)
{
	for (size_t i = 0; i < t->nslots; i++)
		free(t->slots[i].name);
	free(t->slots);
	*t = (struct aliases){0};
}
