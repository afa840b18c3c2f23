/* SPDX-License-Identifier: Apache-2.0 */
/* Inode numbers as the host is told them. See number.h. */
#include "number.h"

#include <errno.h>
#include <stdlib.h>

#include "vm/base/util.h"

/* The lower part of a number is that of the file system, the upper part its generation. */
#define OWN_BITS 32u

/* Return: where it is in the table, or the free place in which it would be. */
static struct number *place(const struct numbers *ns, ino_t own)
{
	size_t i = (size_t)((uint64_t)own * 0x9e3779b97f4a7c15u >> 20) & (ns->cap - 1);

	while (ns->table[i].shown && ns->table[i].own != own)
		i = (i + 1) & (ns->cap - 1);
	return &ns->table[i];
}

uint64_t number_of(const struct numbers *ns, ino_t own)
{
	const struct number *at = ns->n ? place(ns, own) : NULL;
	const uint64_t folded = ((uint64_t)own ^ (uint64_t)own >> OWN_BITS) & UINT32_MAX;

	if (at && at->shown)
		return at->shown;
	return ns->generation ? ns->generation << OWN_BITS | folded : own;
}

static int grow(struct numbers *ns)
{
	struct numbers more = *ns;

	if (ns->n < ns->cap / 2)
		return 0;
	more.cap = ns->cap ? 2 * ns->cap : 64;
	more.table = calloc(more.cap, sizeof(*more.table));
	if (!more.table)
		return -ENOMEM;
	for (size_t i = 0; i < ns->cap; i++)
		if (ns->table[i].shown)
			*place(&more, ns->table[i].own) = ns->table[i];
	free(ns->table);
	*ns = more;
	return 0;
}

int number_set(struct numbers *ns, ino_t own, uint64_t shown)
{
	const uint64_t after = (shown >> OWN_BITS) + 1;
	struct number *at;
	int r = grow(ns);

	if (r < 0)
		return r;
	at = place(ns, own);
	ns->n += !at->shown;
	*at = (struct number){own, shown};
	ns->generation = MAX(ns->generation, after);
	return 0;
}

void numbers_clear(struct numbers *ns)
{
	free(ns->table);
	*ns = (struct numbers){.generation = ns->generation + 1};
}
