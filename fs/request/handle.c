/* SPDX-License-Identifier: Apache-2.0 */
/* Open handles, the requests parked on them, and who polls them. */
#include "handle.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "vm/base/util.h"
#include "fs/mount.h"
#include "fs/session/quota.h"
#include "reply.h"
#include "fs/session/run.h"
#include "fs/session/session.h"

void handles_init(struct handles *hs)
{
	*hs = (struct handles){0};
	TAILQ_INIT(&hs->open);
}

void handles_fini(struct fs *fs)
{
	struct handle *h;

	while ((h = TAILQ_FIRST(&fs->handles.open)))
		handle_free(fs, h);
	free(fs->handles.table);
	free(fs->handles.generation);
}

static int handles_grow(struct handles *hs)
{
	uint32_t cap = hs->cap ? hs->cap * 2 : 64;
	struct handle **table = realloc(hs->table, cap * sizeof(*table));
	uint32_t *generation;

	if (!table)
		return -ENOMEM;
	hs->table = table;
	generation = realloc(hs->generation, cap * sizeof(*generation));
	if (!generation)
		return -ENOMEM;
	hs->generation = generation;
	for (uint32_t i = hs->cap; i < cap; i++) {
		table[i] = NULL;
		generation[i] = 1;
	}
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

struct handle *handle_new(struct fs *fs, const struct node *n, const struct handle_ops *ops,
			  int flags)
{
	struct handles *hs = &fs->handles;
	_cleanup_free_ struct handle *h = calloc(1, sizeof(*h));
	uint32_t i;

	if (!h || (hs->nopen == hs->cap && handles_grow(hs) < 0) ||
	    opener_add(hs, quota_whose(fs, n->s), h) < 0)
		return NULL;
	for (i = hs->hint; hs->table[i]; i++)
		;
	hs->hint = i + 1;
	hs->table[i] = h;
	hs->nopen++;
	h->index = i;
	h->generation = hs->generation[i];
	h->ops = ops;
	h->kind = n->kind;
	h->ino = n->ino;
	h->flags = flags;
	if (n->s)
		h->s = session_ref(n->s);
	if (n->r)
		handle_bind(h, n->r);
	TAILQ_INSERT_HEAD(&hs->open, h, link);
	LIST_INSERT_HEAD(&hs->by_ino[n->ino % HANDLE_BUCKETS], h, near);
	return steal_ptr(h);
}

void handle_free(struct fs *fs, struct handle *h)
{
	struct handles *hs = &fs->handles;

	if (h->poll) {
		TAILQ_REMOVE(&h->poll_list->polled, h, poll_link);
		pollwait_free(h->poll);
	}
	assert(hs->table[h->index] == h);
	hs->table[h->index] = NULL;
	hs->generation[h->index]++;
	hs->nopen--;
	hs->hint = MIN(hs->hint, h->index);
	TAILQ_REMOVE(&hs->open, h, link);
	LIST_REMOVE(h, near);
	opener_remove(h);
	handle_bind(h, NULL);
	if (h->s)
		session_unref(h->s);
	buf_clear(&h->text);
	free(h);
}

uint64_t handle_id(const struct handle *h)
{
	return (uint64_t)h->generation << 32 | h->index;
}

struct handle *handle_get(struct fs *fs, uint64_t fh)
{
	uint32_t index = (uint32_t)fh;
	struct handle *h = index < fs->handles.cap ? fs->handles.table[index] : NULL;

	return h && h->generation == fh >> 32 ? h : NULL;
}

const struct handle *handle_find(const struct fs *fs, uint64_t ino, const struct handle_ops *ops)
{
	const struct handle *h;

	LIST_FOREACH(h, &fs->handles.by_ino[ino % HANDLE_BUCKETS], near)
		if (h->ino == ino && (ops ? h->ops == ops : h->stream))
			return h;
	return NULL;
}

bool handles_stream(const struct fs *fs, uint64_t ino)
{
	return handle_find(fs, ino, NULL);
}

void handle_bind(struct handle *h, struct run *r)
{
	struct run *old = h->r;

	h->r = r ? run_ref(r) : NULL;
	if (old)
		run_unref(old);
}

void waitlist_init(struct waitlist *wl)
{
	TAILQ_INIT(&wl->waiters);
	TAILQ_INIT(&wl->polled);
	wl->nwaiters = 0;
}

/* Off its list, at the word of the request itself. */
static struct req *unpark(struct waiter *w)
{
	struct req *req = w->req;

	TAILQ_REMOVE(&w->list->waiters, w, link);
	w->list->nwaiters--;
	free(w);
	return req;
}

struct req *wait_unpark(struct waiter *w)
{
	req_on_interrupt(w->req, NULL, NULL);
	return unpark(w);
}

static void on_interrupt(struct req *req, void *data)
{
	struct waiter *w = data;

	assert(w->req == req);
	reply_err(unpark(w), -EINTR);
}

void wait_park_on(struct fs *fs, struct waitlist *wl, struct handle *h, struct req *req,
		  size_t size, uint64_t offset)
{
	static uint64_t serial;
	struct waiter *w = fs->stopping ? NULL : malloc(sizeof(*w));

	if (!w) {
		reply_err(req, fs->stopping ? -ENOTCONN : -ENOMEM);
		return;
	}
	serial++;
	*w = (struct waiter){
		.list = wl, .req = req, .h = h, .size = size, .offset = offset, .serial = serial};
	TAILQ_INSERT_TAIL(&wl->waiters, w, link);
	wl->nwaiters++;
	req_on_interrupt(req, on_interrupt, w); /* may call it at once, and end w */
}

void wait_park(struct fs *fs, struct handle *h, struct req *req, size_t size, uint64_t offset)
{
	wait_park_on(fs, h->ops->waits(fs, h), h, req, size, offset);
}

static void wake_pollers(struct waitlist *wl)
{
	struct handle *h;

	while ((h = TAILQ_FIRST(&wl->polled))) {
		struct pollwait *pw = h->poll;

		TAILQ_REMOVE(&wl->polled, h, poll_link);
		h->poll = NULL;
		pollwait_notify(pw);
		pollwait_free(pw);
	}
}

void wait_wake(struct fs *fs, struct waitlist *wl)
{
	unsigned n = wl->nwaiters;

	/* Those that park again go to the end of the list; n bounds this round to the others. */
	while (n-- && !TAILQ_EMPTY(&wl->waiters)) {
		struct waiter *w = TAILQ_FIRST(&wl->waiters);
		struct handle *h = w->h;
		size_t size = w->size;
		uint64_t offset = w->offset;
		struct req *req;

		req = wait_unpark(w);
		h->ops->read(fs, h, req, size, offset, false);
	}
	wake_pollers(wl);
}

void wait_flush(struct waitlist *wl, int err)
{
	struct waiter *w;

	while ((w = TAILQ_FIRST(&wl->waiters)))
		reply_err(wait_unpark(w), err);
	wake_pollers(wl);
}

void wait_poll(struct fs *fs, struct handle *h, struct pollwait *pw)
{
	if (h->poll) {
		pollwait_free(h->poll);
	} else {
		h->poll_list = h->ops->waits(fs, h);
		TAILQ_INSERT_TAIL(&h->poll_list->polled, h, poll_link);
	}
	h->poll = pw;
}
