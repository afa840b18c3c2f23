/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that records speak of by number. See fdbag.h. */
#include "fdbag.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "lent.h"

static_assert(LENT_MAX == FDBAG_MAX, "what is lent has numbers of a bag");

/* Return: its number, or 0. */
static unsigned add(struct fdbag *b, int fd)
{
	const size_t cap = b->cap ? b->cap * 2 : 32;
	int *more;

	if (b->n == b->cap) {
		more = b->n < FDBAG_MAX ? reallocarray(b->fd, cap, sizeof(*more)) : NULL;
		if (!more) {
			b->failed = true;
			return 0;
		}
		b->fd = more;
		b->cap = cap;
	}
	b->fd[b->n++] = fd;
	return (unsigned)b->n;
}

unsigned fdbag_put(struct fdbag *b, int fd)
{
	unsigned n;

	if (fd < 0)
		return 0;
	if (!b->number)
		return add(b, fd);
	n = b->number(fd);
	b->failed |= n == 0;
	return n;
}

int fdbag_set(void *bag, unsigned number, int fd)
{
	struct fdbag *b = bag;
	int r = number == 0 || number > FDBAG_MAX ? -EBADMSG : 0;

	b->owned = true;
	while (r == 0 && b->n < number)
		r = add(b, -1) ? 0 : -ENOMEM;
	if (r == 0 && b->fd[number - 1] >= 0)
		r = -EBADMSG;
	if (r == 0)
		b->fd[number - 1] = fd;
	else
		lent_close(&fd);
	return r;
}

int fdbag_take(struct fdbag *b, unsigned number)
{
	int fd;

	if (number == 0 || number > b->n)
		return -1;
	fd = b->fd[number - 1];
	b->fd[number - 1] = -1;
	return fd;
}

void fdbag_clear(struct fdbag *b)
{
	for (size_t i = 0; b->owned && i < b->n; i++)
		lent_close(&b->fd[i]);
	free(b->fd);
	*b = (struct fdbag){0};
}
