/* SPDX-License-Identifier: Apache-2.0 */
/* The directories that are watched. See watchdir.h. */
#include "watchdir.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

#include "vm/base/hash.h"

static struct watchdir *new (const char *name)
{
	const size_t size = strlen(name) + 1;
	struct watchdir *d = calloc(1, sizeof(*d) + size);

	if (!d)
		return NULL;
	memcpy(d->name, name, size);
	d->wd = -1;
	LIST_INIT(&d->children);
	return d;
}

static unsigned bucket_of(const struct watchdir *parent, const char *name)
{
	const uint32_t h = (uint32_t)((uintptr_t)parent >> 4) ^ HASH_BEGIN;

	return hash_more(h, name, strlen(name)) % WATCHDIR_BUCKETS;
}

/* Puts it below @parent, where nothing of this name is. */
static void hang(struct watchdirs *t, struct watchdir *d, struct watchdir *parent)
{
	d->parent = parent;
	if (!parent)
		return;
	LIST_INSERT_HEAD(&parent->children, d, beside);
	LIST_INSERT_HEAD(&t->names[bucket_of(parent, d->name)], d, alike);
}

static void unhang(struct watchdir *d)
{
	if (!d->parent)
		return;
	LIST_REMOVE(d, beside);
	LIST_REMOVE(d, alike);
}

static void enter(struct watchdirs *t, struct watchdir *d, struct watchdir *parent, bool told)
{
	hang(t, d, parent);
	d->todo = true;
	d->told = told;
	TAILQ_INSERT_TAIL(&t->todo, d, next);
	t->n++;
}

int watchdirs_init(struct watchdirs *t)
{
	for (size_t i = 0; i < WATCHDIR_BUCKETS; i++) {
		LIST_INIT(&t->buckets[i]);
		LIST_INIT(&t->names[i]);
	}
	TAILQ_INIT(&t->todo);
	t->n = 0;
	t->root = new ("");
	if (!t->root)
		return -ENOMEM;
	enter(t, t->root, NULL, false);
	return 0;
}

void watchdirs_clear(struct watchdirs *t)
{
	if (t->root)
		watchdir_drop(t, t->root, -1);
	assert(t->n == 0);
}

struct watchdir *watchdir_child(const struct watchdirs *t, const struct watchdir *parent,
				const char *name)
{
	struct watchdir *d;

	LIST_FOREACH(d, &t->names[bucket_of(parent, name)], alike)
		if (d->parent == parent && !strcmp(d->name, name))
			return d;
	return NULL;
}

int watchdir_add(struct watchdirs *t, struct watchdir *parent, const char *name, bool told)
{
	struct watchdir *d;

	if (watchdir_child(t, parent, name))
		return 0;
	if (t->n >= WATCHDIR_MAX)
		return -ENOSPC;
	d = new (name);
	if (!d)
		return -ENOMEM;
	enter(t, d, parent, told);
	return 0;
}

struct watchdir *watchdir_find(const struct watchdirs *t, int wd)
{
	struct watchdir *d;

	LIST_FOREACH(d, &t->buckets[(unsigned)wd % WATCHDIR_BUCKETS], near)
		if (d->wd == wd)
			return d;
	return NULL;
}

void watchdir_set(struct watchdirs *t, struct watchdir *d, int wd)
{
	struct watchdir *former = watchdir_find(t, wd);

	assert(d->wd < 0 && wd >= 0);
	if (former) {
		LIST_REMOVE(former, near);
		former->wd = -1;
	}
	d->wd = wd;
	LIST_INSERT_HEAD(&t->buckets[(unsigned)wd % WATCHDIR_BUCKETS], d, near);
}

void watchdir_looked(struct watchdirs *t, struct watchdir *d)
{
	assert(d->todo);
	d->todo = false;
	TAILQ_REMOVE(&t->todo, d, next);
}

/* Takes it out of all lists, and frees it. */
static void leave(struct watchdirs *t, struct watchdir *d)
{
	if (d->wd >= 0)
		LIST_REMOVE(d, near);
	if (d->todo)
		TAILQ_REMOVE(&t->todo, d, next);
	unhang(d);
	if (!d->parent)
		t->root = NULL;
	t->n--;
	free(d);
}

int watchdir_move(struct watchdirs *t, struct watchdir *d, struct watchdir *parent,
		  const char *name)
{
	struct watchdir *to, *child;

	for (const struct watchdir *up = parent; up; up = up->parent)
		if (up == d)
			return -EINVAL;
	to = new (name);
	if (!to)
		return -ENOMEM;
	while ((child = LIST_FIRST(&d->children))) {
		unhang(child);
		hang(t, child, to);
	}
	enter(t, to, parent, d->told);
	if (d->wd >= 0)
		watchdir_set(t, to, d->wd);
	if (!d->todo)
		watchdir_looked(t, to);
	leave(t, d);
	return 0;
}

void watchdir_drop(struct watchdirs *t, struct watchdir *d, int notify)
{
	struct watchdir *at = d, *up;

	/* From the leaves up, for there may be more levels than the stack has room for. */
	for (;;) {
		while (!LIST_EMPTY(&at->children))
			at = LIST_FIRST(&at->children);
		up = at == d ? NULL : at->parent;
		if (notify >= 0 && at->wd >= 0)
			(void)inotify_rm_watch(notify, at->wd);
		leave(t, at);
		if (!up)
			return;
		at = up;
	}
}

int watchdir_path(const struct watchdir *d, const char *name, char *buf, size_t size)
{
	size_t at = size, len = strlen(name);

	/* From the end. */
	for (const struct watchdir *up = d;; up = up->parent) {
		if (len + 1 > at)
			return -1;
		at -= len;
		memcpy(buf + at, name, len);
		if (!up->parent)
			break;
		if (len)
			buf[--at] = '/';
		name = up->name;
		len = strlen(name);
	}
	len = size - at;
	memmove(buf, buf + at, len);
	if (len == size)
		return -1;
	buf[len] = '\0';
	return (int)len;
}
