/* SPDX-License-Identifier: Apache-2.0 */
/* The records of an estate by name, and in the order in which they came. See estate.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "estate_internal.h"
#include "util.h"

#define BUCKETS_MIN 256u

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ull;
	return h ^ (h >> 32);
}

static uint64_t hash_of_key(const struct estate *e, uint32_t kind, uint64_t key)
{
	return mix(mix(e->seed, kind), key);
}

static struct estate_item **name_bucket(const struct estate *e, uint32_t kind, uint64_t key,
					uint64_t sub)
{
	return &e->names[mix(hash_of_key(e, kind, key), sub) & (e->buckets - 1)];
}

static struct estate_key *key_bucket(const struct estate *e, uint32_t kind, uint64_t key)
{
	return &e->keys[hash_of_key(e, kind, key) & (e->buckets - 1)];
}

static void enter(struct estate *e, struct estate_item *it)
{
	struct estate_item **bucket = name_bucket(e, it->kind, it->key, it->sub);

	it->by_name = *bucket;
	*bucket = it;
	LIST_INSERT_HEAD(key_bucket(e, it->kind, it->key), it, by_key);
}

/* Puts all into @n buckets. Return: 0 or -ENOMEM, with everything as it was. */
static int spread(struct estate *e, size_t n)
{
	struct estate_item **old = e->names, **names = calloc(n, sizeof(struct estate_item *)), *it,
			   *next;
	struct estate_key *keys = calloc(n, sizeof(*keys));
	const size_t was = e->buckets;

	if (!names || !keys) {
		free(names);
		free(keys);
		return -ENOMEM;
	}
	free(e->keys);
	e->names = names;
	e->keys = keys;
	e->buckets = n;
	for (size_t i = 0; i < was; i++) {
		for (it = old[i]; it; it = next) {
			next = it->by_name;
			enter(e, it);
		}
	}
	free(old);
	return 0;
}

int estate_items_init(struct estate *e)
{
	TAILQ_INIT(&e->items);
	/* So that nobody can choose names which all fall into one bucket. */
	if (getrandom(&e->seed, sizeof(e->seed), 0) != sizeof(e->seed))
		return -EIO;
	return spread(e, BUCKETS_MIN);
}

void estate_items_clear(struct estate *e)
{
	struct estate_item *it, *next;

	for (size_t i = 0; i < e->buckets; i++) {
		for (it = e->names[i]; it; it = next) {
			next = it->by_name;
			free(it);
		}
	}
	free(e->names);
	free(e->keys);
	e->names = NULL;
	e->keys = NULL;
	e->buckets = e->n = e->live = 0;
	e->cursor = NULL;
	TAILQ_INIT(&e->items);
}

struct estate_item *estate_find(const struct estate *e, uint32_t kind, uint64_t key, uint64_t sub)
{
	struct estate_item *it = e->buckets ? *name_bucket(e, kind, key, sub) : NULL;

	while (it && (it->kind != kind || it->key != key || it->sub != sub))
		it = it->by_name;
	return it;
}

struct estate_item *estate_item_new(struct estate *e, uint32_t kind, uint64_t key, uint64_t sub)
{
	struct estate_item *it = calloc(1, sizeof(*it));

	if (!it)
		return NULL;
	if (e->n >= e->buckets && spread(e, e->buckets * 2) < 0) {
		free(it);
		return NULL;
	}
	*it = (struct estate_item){.kind = kind, .key = key, .sub = sub};
	enter(e, it);
	TAILQ_INSERT_TAIL(&e->items, it, link);
	e->n++;
	e->live += estate_entry_size(0);
	return it;
}

void estate_item_free(struct estate *e, struct estate_item *it)
{
	struct estate_item **at = name_bucket(e, it->kind, it->key, it->sub);

	if (e->cursor == it)
		e->cursor = TAILQ_NEXT(it, link);
	while (*at != it)
		at = &(*at)->by_name;
	*at = it->by_name;
	LIST_REMOVE(it, by_key);
	TAILQ_REMOVE(&e->items, it, link);
	e->n--;
	e->live -= estate_entry_size(it->len);
	free(it);
}

struct estate_item *estate_of_key(const struct estate *e, uint32_t kind, uint64_t key,
				  const struct estate_item *after)
{
	struct estate_item *it;

	if (e->buckets == 0)
		return NULL;
	it = after ? LIST_NEXT(after, by_key) : LIST_FIRST(key_bucket(e, kind, key));
	while (it && (it->kind != kind || it->key != key))
		it = LIST_NEXT(it, by_key);
	return it;
}

void estate_item_count(struct estate *e, struct estate_item *it, size_t len)
{
	e->live += estate_entry_size(len) - estate_entry_size(it->len);
	it->len = (uint32_t)len;
}

static int by_serial(const void *a, const void *b)
{
	const struct estate_item *x = *(struct estate_item *const *)a,
				 *y = *(struct estate_item *const *)b;

	return (x->serial > y->serial) - (x->serial < y->serial);
}

int estate_items_sort(struct estate *e)
{
	_cleanup_free_ struct estate_item **all = calloc(e->n + 1, sizeof(struct estate_item *));
	struct estate_item *it;
	size_t n = 0;

	if (!all)
		return -ENOMEM;
	TAILQ_FOREACH(it, &e->items, link)
		all[n++] = it;
	qsort(all, n, sizeof(struct estate_item *), by_serial);
	TAILQ_INIT(&e->items);
	for (size_t i = 0; i < n; i++)
		TAILQ_INSERT_TAIL(&e->items, all[i], link);
	return 0;
}
