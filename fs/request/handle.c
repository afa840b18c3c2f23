/* SPDX-License-Identifier: Apache-2.0 */
/* Open handles: their table, and their operations. */
#include "handle.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "vm/base/turn.h"
#include "vm/base/util.h"
#include "waitlist.h"

#define HANDLES_MAX (1u << 24) /* no user may have as many */

void handles_init(struct handles *hs)
{
	*hs = (struct handles){0};
	TAILQ_INIT(&hs->open);
}

void handles_fini(struct handles *hs)
{
	struct handle *h;

	while ((h = TAILQ_FIRST(&hs->open)))
		handle_free(h);
	free(hs->table);
}

static int handles_grow(struct handles *hs)
{
	const uint32_t cap = hs->cap ? hs->cap * 2 : 64;
	struct handle_slot *table = reallocarray(hs->table, cap, sizeof(*table));

	if (!table)
		return -ENOMEM;
	for (uint32_t i = hs->cap; i < cap; i++)
		table[i] = (struct handle_slot){.generation = 1};
	hs->table = table;
	hs->cap = cap;
	return 0;
}

struct opener *handle_opener(const struct handles *hs, uid_t uid)
{
	struct opener *o;

	LIST_FOREACH(o, &hs->openers[uid % HANDLE_BUCKETS], link)
		if (o->uid == uid)
			return o;
	return NULL;
}

static int opener_add(struct handles *hs, uid_t uid, struct handle *h)
{
	struct opener *o = handle_opener(hs, uid);

	if (!o) {
		o = calloc(1, sizeof(*o));
		if (!o)
			return -ENOMEM;
		o->uid = uid;
		LIST_INSERT_HEAD(&hs->openers[uid % HANDLE_BUCKETS], o, link);
	}
	o->count++;
	LIST_INSERT_HEAD(&o->handles, h, opened);
	h->opener = o;
	return 0;
}

static void opener_remove(struct handle *h)
{
	struct opener *o = h->opener;

	LIST_REMOVE(h, opened);
	if (--o->count)
		return;
	LIST_REMOVE(o, link);
	free(o);
}

/* Return: one like @like at a free index of the table, or NULL if out of memory. */
static struct handle *add_at(struct handles *hs, const struct handle *like, uid_t payer, uint32_t i)
{
	_cleanup_free_ struct handle *h = malloc(sizeof(*h));

	if (!h)
		return NULL;
	*h = *like;
	h->record = (struct handle_record){0};
	if (opener_add(hs, payer, h) < 0)
		return NULL;
	hs->table[i].h = h;
	hs->nopen++;
	h->index = i;
	h->generation = hs->table[i].generation;
	h->all = hs;
	TAILQ_INSERT_HEAD(&hs->open, h, link);
	LIST_INSERT_HEAD(&hs->by_ino[h->ino % HANDLE_BUCKETS], h, near);
	handle_touch(h);
	return steal_ptr(h);
}

struct handle *handle_new(struct handles *hs, const struct handle *like, uid_t payer)
{
	struct handle *h;
	uint32_t i;

	if (hs->nopen == hs->cap && handles_grow(hs) < 0)
		return NULL;
	for (i = hs->hint; hs->table[i].h; i++)
		;
	h = add_at(hs, like, payer, i);
	if (h) {
		hs->hint = i + 1;
		h->serial = ++hs->last_serial;
	}
	return h;
}

/* There is such an index, and it is free. */
static int reserve(struct handles *hs, uint32_t index)
{
	if (index >= HANDLES_MAX)
		return -EBADMSG;
	while (index >= hs->cap) {
		if (handles_grow(hs) < 0)
			return -ENOMEM;
	}
	return hs->table[index].h ? -EBADMSG : 0;
}

int handles_set_generation(struct handles *hs, uint32_t index, uint32_t generation)
{
	int r = reserve(hs, index);

	if (r == 0)
		hs->table[index].generation = hs->table[index].written = generation;
	return r;
}

int handle_revive(struct handles *hs, const struct handle *like, uid_t payer, uint32_t index,
		  uint32_t generation, struct handle **ret_h)
{
	int r = reserve(hs, index);

	if (r < 0)
		return r;
	hs->table[index].generation = generation;
	*ret_h = add_at(hs, like, payer, index);
	if (!*ret_h)
		return -ENOMEM;
	hs->last_serial = MAX(hs->last_serial, like->serial);
	return 0;
}

static int compare_serials(const void *a, const void *b)
{
	const struct handle *x = *(struct handle *const *)a, *y = *(struct handle *const *)b;

	return (x->serial > y->serial) - (x->serial < y->serial);
}

int handles_sort(struct handles *hs)
{
	_cleanup_free_ struct handle **all = calloc(hs->nopen + 1, sizeof(struct handle *));
	struct handle *h;
	size_t n = 0;

	if (!all)
		return -ENOMEM;
	TAILQ_FOREACH_REVERSE(h, &hs->open, open_list, link)
		all[n++] = h;
	qsort(all, n, sizeof(struct handle *), compare_serials);
	TAILQ_INIT(&hs->open);
	for (size_t i = 0; i < n; i++)
		TAILQ_INSERT_HEAD(&hs->open, all[i], link);
	return 0;
}

/* There is to be no record of it any more. */
static void forget_record(struct handle *h)
{
	struct touched *t = h->all->touched;

	if (!t)
		return;
	touched_take(t, TOUCHED_HANDLE, &h->record.touch);
	if (h->record.written)
		touched_add_gone(t, TOUCHED_HANDLE, handle_id(h), 0);
}

void handle_free(struct handle *h)
{
	struct handles *hs = h->all;

	wait_unpoll(h);
	assert(hs->table[h->index].h == h);
	forget_record(h);
	hs->table[h->index].h = NULL;
	hs->table[h->index].generation++;
	hs->nopen--;
	hs->hint = MIN(hs->hint, h->index);
	TAILQ_REMOVE(&hs->open, h, link);
	LIST_REMOVE(h, near);
	opener_remove(h);
	if (h->disown)
		h->disown(h);
	buf_clear(&h->text);
	free(h->was);
	free(h);
}

bool handle_writes(const struct handle *h)
{
	return (h->flags & O_ACCMODE) != O_RDONLY;
}

uint64_t handle_id(const struct handle *h)
{
	return (uint64_t)h->generation << 32 | h->index;
}

size_t file_was_bytes(const struct file_was *was)
{
	return was ? sizeof(*was) + was->length : 0;
}

size_t handle_bytes(const struct handle *h)
{
	return h->text.len + file_was_bytes(h->was);
}

struct handle *handle_get(const struct handles *hs, uint64_t fh)
{
	const uint32_t index = (uint32_t)fh;
	struct handle *h = index < hs->cap ? hs->table[index].h : NULL;

	return h && h->generation == fh >> 32 ? h : NULL;
}

const struct handle *handle_find(const struct handles *hs, uint64_t ino,
				 const struct handle_ops *ops)
{
	const struct handle *h;

	LIST_FOREACH(h, &hs->by_ino[ino % HANDLE_BUCKETS], near)
		if (h->ino == ino && (ops ? h->ops == ops : h->stream))
			return h;
	return NULL;
}

bool handles_stream(const struct handles *hs, uint64_t ino)
{
	return handle_find(hs, ino, NULL);
}
