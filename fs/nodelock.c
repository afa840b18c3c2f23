/* SPDX-License-Identifier: Apache-2.0 */
/* Locks on nodes that the daemon serves itself. */
#include "nodelock.h"

#include <errno.h>
#include <stdlib.h>

#include "fs.h"
#include "reply.h"

struct node_wait {
	struct lock_waiter w; /* first */
	struct fs *fs;
	struct req *req;
	uint64_t handle;
};

static struct lock_file file_of(const struct handle *h)
{
	return (struct lock_file){0, h->ino};
}

/* Takes, gives back or converts, if nothing is in the way. */
static int try(struct lockbook *b, const struct lock_ask *ask, uint64_t handle)
{
	struct lock_holder *h = lockbook_find(b, ask->file, ask->owner);
	struct lock_spare spare;
	int e;

	if (lockbook_conflict(b, ask, NULL, NULL))
		return -EAGAIN;
	if (!h && ask->type == PROTO_UNLOCK)
		return 0;
	e = lockbook_reserve(b, &spare);
	if (e < 0)
		return e;
	if (!h)
		h = lockbook_new(b, ask->file, ask->owner, handle);
	if (!h) {
		lockbook_unreserve(&spare);
		return -ENOLCK;
	}
	lockbook_apply(b, h, ask, &spare);
	if (lockbook_empty(h))
		lockbook_free(b, h);
	return 0;
}

static void end_wait(struct node_wait *w, int err)
{
	struct req *req = w->req;

	TAILQ_REMOVE(&w->fs->locks.waiters, &w->w, link);
	free(w);
	reply_err(req, err);
}

static void on_interrupt(struct req *req, void *data)
{
	(void)req;
	end_wait(data, -EINTR);
}

/* Ends a wait from outside. An interrupt that comes late must not find it. */
static void answer_wait(struct node_wait *w, int err)
{
	req_on_interrupt(w->req, NULL, NULL);
	end_wait(w, err);
}

/* Something was given back. */
static void wake(struct fs *fs)
{
	struct lock_waiter *w, *next;

	for (w = TAILQ_FIRST(&fs->locks.waiters); w; w = next) {
		struct node_wait *nw = (struct node_wait *)w;
		int e = try(&fs->locks, &w->ask, nw->handle);

		next = TAILQ_NEXT(w, link);
		if (e != -EAGAIN)
			answer_wait(nw, e);
	}
}

static void begin_wait(struct fs *fs, const struct handle *h, struct req *req,
		       const struct lock_ask *ask)
{
	struct node_wait *w = calloc(1, sizeof(*w));

	if (!w) {
		reply_err(req, -ENOLCK);
		return;
	}
	*w = (struct node_wait){.w.ask = *ask, .fs = fs, .req = req, .handle = handle_id(h)};
	TAILQ_INSERT_TAIL(&fs->locks.waiters, &w->w, link);
	req_on_interrupt(req, on_interrupt, w);
}

void nodelock_set(struct fs *fs, const struct handle *h, struct req *req, struct lock_ask *ask,
		  bool wait)
{
	int e;

	ask->file = file_of(h);
	e = try(&fs->locks, ask, handle_id(h));
	if (e == -EAGAIN && wait) {
		if (!lockbook_deadlocks(&fs->locks, ask)) {
			begin_wait(fs, h, req, ask);
			return;
		}
		e = -EDEADLK;
	}
	reply_err(req, e);
	if (e == 0)
		wake(fs);
}

void nodelock_test(struct fs *fs, const struct handle *h, struct req *req, struct lock_ask *ask)
{
	const struct lock_range *range = NULL;
	const struct lock_holder *holder;

	ask->file = file_of(h);
	holder = lockbook_conflict(&fs->locks, ask, NULL, &range);
	if (!holder)
		ask->type = PROTO_UNLOCK;
	reply_lock(req, holder ? range->type : PROTO_UNLOCK, holder ? range->start : ask->start,
		   holder ? range->end : ask->end, holder ? holder->pid : 0);
}

void nodelock_flush(struct fs *fs, const struct handle *h, uint64_t owner)
{
	const struct lock_ask all = {
		.file = file_of(h), .owner = owner, .end = INT64_MAX, .type = PROTO_UNLOCK};

	if (!lockbook_find(&fs->locks, all.file, owner))
		return;
	(void)try(&fs->locks, &all, 0); /* taking all off needs no memory */
	wake(fs);
}

void nodelock_release(struct fs *fs, const struct handle *h)
{
	struct lock_holder *holder, *next;
	bool any = false;

	for (holder = LIST_FIRST(&fs->locks.holders); holder; holder = next) {
		next = LIST_NEXT(holder, link);
		if (holder->handle == handle_id(h)) {
			lockbook_free(&fs->locks, holder);
			any = true;
		}
	}
	if (any)
		wake(fs);
}

void nodelock_give_up(struct fs *fs, int err)
{
	struct lock_waiter *w;

	while ((w = TAILQ_FIRST(&fs->locks.waiters)))
		answer_wait((struct node_wait *)w, err);
}
