/* SPDX-License-Identifier: Apache-2.0 */
/* What is on the disk, and nobody has. See orphans.h. */
#include "orphans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct orphan {
	TAILQ_ENTRY(orphan) link;
	uint64_t mark; /* of the time when that became so */
	char name[VAULT_NAME_MAX];
};

void orphans_init(struct orphans *o)
{
	o->mark = 0;
	TAILQ_INIT(&o->list);
}

static void drop(struct orphans *o, struct orphan *one)
{
	TAILQ_REMOVE(&o->list, one, link);
	free(one);
}

void orphans_clear(struct orphans *o)
{
	struct orphan *one;

	while ((one = TAILQ_FIRST(&o->list)))
		drop(o, one);
}

void orphans_add(struct orphans *o, const char *name)
{
	struct orphan *one = malloc(sizeof(*one));

	if (!one)
		return;
	one->mark = o->mark;
	snprintf(one->name, sizeof(one->name), "%s", name);
	TAILQ_INSERT_TAIL(&o->list, one, link);
}

static struct orphan *find(const struct orphans *o, const char *name)
{
	struct orphan *one;

	TAILQ_FOREACH(one, &o->list, link)
		if (strcmp(one->name, name) == 0)
			break;
	return one;
}

bool orphans_has(const struct orphans *o, const char *name)
{
	return find(o, name);
}

void orphans_adopt(struct orphans *o, const char *name)
{
	struct orphan *one = find(o, name);

	if (one)
		drop(o, one);
}

void orphans_join(struct orphans *o, struct orphans *from)
{
	struct orphan *one;

	TAILQ_FOREACH(one, &from->list, link)
		one->mark = o->mark;
	TAILQ_CONCAT(&o->list, &from->list, link);
}

size_t orphans_take(struct orphans *o, uint64_t mark, char (**ret_names)[VAULT_NAME_MAX])
{
	char(*names)[VAULT_NAME_MAX];
	struct orphan *one, *next;
	size_t n = 0;

	TAILQ_FOREACH(one, &o->list, link)
		n += one->mark < mark;
	names = n ? calloc(n, sizeof(*names)) : NULL;
	if (!names)
		return 0;
	n = 0;
	for (one = TAILQ_FIRST(&o->list); one; one = next) {
		next = TAILQ_NEXT(one, link);
		if (one->mark >= mark)
			continue;
		memcpy(names[n++], one->name, sizeof(one->name));
		drop(o, one);
	}
	*ret_names = names;
	return n;
}
