/* SPDX-License-Identifier: Apache-2.0 */
/* A table of files. See inodes.h. */
#include "inodes.h"

#include <errno.h>
#include <stdlib.h>

/* Return: where it is in the table, or the free place in which it would be. */
static struct inode *place(const struct inodes *is, dev_t dev, ino_t ino)
{
	size_t i = (size_t)(ino * 0x9e3779b97f4a7c15u >> 20) & (is->cap - 1);

	while (is->table[i].value && (is->table[i].ino != ino || is->table[i].dev != dev))
		i = (i + 1) & (is->cap - 1);
	return &is->table[i];
}

uint64_t inodes_get(const struct inodes *is, dev_t dev, ino_t ino)
{
	return is->n ? place(is, dev, ino)->value : 0;
}

/* Keeps it at most half full. */
static int grow(struct inodes *is)
{
	struct inodes more = *is;

	if (is->n < is->cap / 2)
		return 0;
	more.cap = is->cap ? 2 * is->cap : 64;
	more.table = calloc(more.cap, sizeof(*more.table));
	if (!more.table)
		return -ENOMEM;
	for (size_t i = 0; i < is->cap; i++) {
		const struct inode *old = &is->table[i];

		if (old->value)
			*place(&more, old->dev, old->ino) = *old;
	}
	free(is->table);
	*is = more;
	return 0;
}

int inodes_set(struct inodes *is, dev_t dev, ino_t ino, uint64_t value)
{
	struct inode *at;
	int r = grow(is);

	if (r < 0)
		return r;
	at = place(is, dev, ino);
	is->n += !at->value;
	*at = (struct inode){dev, ino, value};
	return 0;
}

void inodes_clear(struct inodes *is)
{
	free(is->table);
	*is = (struct inodes){0};
}
