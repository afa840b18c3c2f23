/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of the daemon's that the spawner keeps as well. See held.h. */
#include "held.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "vm/base/util.h"

#define HELD_MAX 16384u /* the daemon is not believed to stop by itself */

static int reserve(struct held *h)
{
	const size_t cap = h->cap ? h->cap * 2 : 16;
	struct held_fd *item;

	if (h->n < h->cap)
		return 0;
	if (h->n >= HELD_MAX)
		return -EMFILE;
	item = reallocarray(h->item, cap, sizeof(*item));
	if (!item)
		return -ENOMEM;
	h->item = item;
	h->cap = cap;
	return 0;
}

int held_add(struct held *h, enum held_kind kind, uint32_t id, int fd)
{
	const int r = fd < 0 ? -EBADF : reserve(h);

	if (r == 0)
		h->item[h->n++] = (struct held_fd){kind, id, fd};
	else if (fd >= 0)
		close(fd);
	return r;
}

int held_find(const struct held *h, enum held_kind kind)
{
	for (size_t i = 0; i < h->n; i++) {
		if (h->item[i].kind == kind)
			return h->item[i].fd;
	}
	return -1;
}

void held_sift(struct held *h, enum held_kind kind, bool (*needed)(const void *data, uint32_t id),
	       const void *data)
{
	size_t kept = 0;

	for (size_t i = 0; i < h->n; i++) {
		if (h->item[i].kind == kind && !needed(data, h->item[i].id))
			close(h->item[i].fd);
		else
			h->item[kept++] = h->item[i];
	}
	h->n = kept;
}

static bool is_other(const void *data, uint32_t id)
{
	return id != *(const uint32_t *)data;
}

void held_drop(struct held *h, enum held_kind kind, uint32_t id)
{
	held_sift(h, kind, is_other, &id);
}

/* What came together has numbers in a row, as a rule: of some thousand each call counts. */
void held_leave(const struct held *h)
{
	for (size_t i = 0, end; i < h->n; i = end) {
		for (end = i + 1; end < h->n && h->item[end].fd == h->item[end - 1].fd + 1; end++)
			;
		close_range((unsigned)h->item[i].fd, (unsigned)h->item[end - 1].fd, 0);
	}
}
