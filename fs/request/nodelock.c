/* SPDX-License-Identifier: Apache-2.0 */
/* Locks on nodes that the daemon serves itself. */
#include "nodelock.h"

#include <errno.h>
#include <stdlib.h>

#include "handle.h"
#include "reply.h"

/* Of one user. Who fills a share of his own is in nobody's way but his own. */
#define USER_HOLDERS 512u
#define USER_RANGES  8192u
#define USER_WAITS   256u

struct node_wait {
	struct lock_waiter w; /* first */
	struct lockbook *book;
	struct req *req;
};

void nodelock_init(struct lockbook *b)
{
	lockbook_init(b);
	b->share = (struct lock_share){USER_HOLDERS, USER_RANGES};
}

struct lock_file nodelock_file(const struct handle *h)
{
	return h->file ? (struct lock_file){(uint64_t)h->epoch + 1, h->file}
		       : (struct lock_file){0, h->ino};
}

/* Something is in the way. With flock(2), what was to be converted is given up first: if two who
 * share both wait to have it alone, one of them gets it. */
static void give_up_whole(struct lockbook *b, struct lock_holder *h, const struct lock_ask *ask,
			  bool *ret_freed)
{
	if (!ask->whole || !h || h->whole == PROTO_UNLOCK || h->whole == ask->type)
		return;
	h->whole = PROTO_UNLOCK;
	*ret_freed = true;
	if (lockbook_empty(h))
		lockbook_free(b, h);
}

/* Takes, gives back or converts, if nothing is in the way. @ret_freed is set if others may go on
 * now. */
static int try(struct lockbook *b, const struct lock_ask *ask, bool *ret_freed)
{
	struct lock_holder *h = lockbook_find(b, ask->file, ask->owner);
	struct lock_spare spare;
	int e;

	if (lockbook_conflict(b, ask, NULL, NULL)) {
		give_up_whole(b, h, ask, ret_freed);
		return -EAGAIN;
	}
	if (!h && ask->type == PROTO_UNLOCK)
		return 0;
	*ret_freed |= h && ask->type != PROTO_LOCK_EXCLUSIVE;
	e = lockbook_reserve(b, h, ask, &spare);
	if (e < 0)
		return e;
	if (!h)
		h = lockbook_new(b, ask);
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

	TAILQ_REMOVE(&w->book->waiters, &w->w, link);
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

/* Something was given back. What a waiter gets may itself be a conversion that makes room. */
static void wake(struct lockbook *b)
{
	struct lock_waiter *w, *next;
	bool freed = true;

	while (freed) {
		freed = false;
		for (w = TAILQ_FIRST(&b->waiters); w; w = next) {
			int e = try(b, &w->ask, &freed);

			next = TAILQ_NEXT(w, link);
			if (e != -EAGAIN)
				answer_wait((struct node_wait *)w, e);
		}
	}
}

static unsigned waits_of(const struct lockbook *b, uint32_t uid)
{
	const struct lock_waiter *w;
	unsigned n = 0;

	TAILQ_FOREACH(w, &b->waiters, link)
		n += w->ask.uid == uid;
	return n;
}

static void begin_wait(struct lockbook *b, struct req *req, const struct lock_ask *ask)
{
	struct node_wait *w = waits_of(b, ask->uid) < USER_WAITS ? calloc(1, sizeof(*w)) : NULL;

	if (!w) {
		reply_err(req, -ENOLCK);
		return;
	}
	*w = (struct node_wait){.w.ask = *ask, .book = b, .req = req};
	TAILQ_INSERT_TAIL(&b->waiters, &w->w, link);
	req_on_interrupt(req, on_interrupt, w);
}

static void set(struct lockbook *b, const struct handle *h, struct req *req, struct lock_ask *ask,
		bool wait)
{
	struct req_ctx ctx = {.uid = h->opener->uid};
	bool freed = false;
	int e;

	if (req)
		req_ctx(req, &ctx);
	ask->handle = handle_id(h);
	ask->uid = ctx.uid;
	h->all->relocked = true;
	e = try(b, ask, &freed);
	if (e == -EAGAIN && wait)
		e = lockbook_deadlocks(b, ask) ? -EDEADLK : -EINPROGRESS;
	if (e == -EINPROGRESS)
		begin_wait(b, req, ask);
	else if (req)
		reply_err(req, e);
	if (freed)
		wake(b);
}

static void test(const struct lockbook *b, struct req *req, struct lock_ask *ask)
{
	const struct lock_range *range = NULL;
	const struct lock_holder *holder = lockbook_conflict(b, ask, NULL, &range);

	reply_lock(req, holder ? range->type : PROTO_UNLOCK, holder ? range->start : ask->start,
		   holder ? range->end : ask->end, holder ? holder->pid : 0);
}

void nodelock_serve(struct lockbook *b, const struct handle *h, struct req *req,
		    struct lock_ask *ask, bool test_only, bool wait)
{
	ask->file = nodelock_file(h);
	if (test_only)
		test(b, req, ask);
	else
		set(b, h, req, ask, wait);
}

bool nodelock_flush(struct lockbook *b, const struct handle *h, uint64_t owner)
{
	const struct lock_ask all = {
		.file = nodelock_file(h), .owner = owner, .end = INT64_MAX, .type = PROTO_UNLOCK};
	bool freed = false;

	if (!lockbook_find(b, all.file, owner))
		return false;
	h->all->relocked = true;
	(void)try(b, &all, &freed); /* taking all off needs no memory */
	wake(b);
	return true;
}

static bool is_handle(void *data, uint64_t handle)
{
	const uint64_t *id = data;

	return *id == handle;
}

void nodelock_release_all(struct lockbook *b, struct handles *hs,
			  bool (*is_of)(void *data, uint64_t handle), void *data)
{
	struct lock_holder *holder, *next;
	bool any = false;

	for (holder = LIST_FIRST(&b->holders); holder; holder = next) {
		next = LIST_NEXT(holder, link);
		if (is_of(data, holder->handle)) {
			lockbook_free(b, holder);
			any = hs->relocked = true;
		}
	}
	if (any)
		wake(b);
}

void nodelock_release(struct lockbook *b, const struct handle *h)
{
	uint64_t id = handle_id(h);

	nodelock_release_all(b, h->all, is_handle, &id);
}

static struct lock_ask ask_of(const struct lock_holder *holder)
{
	return (struct lock_ask){.file = holder->file,
				 .owner = holder->owner,
				 .end = INT64_MAX,
				 .pid = holder->pid,
				 .uid = holder->uid,
				 .handle = holder->handle};
}

void nodelock_each(const struct lockbook *b, void (*fn)(void *data, const struct lock_ask *ask),
		   void *data)
{
	const struct lock_holder *holder;

	LIST_FOREACH(holder, &b->holders, link) {
		struct lock_ask ask = ask_of(holder);

		for (const struct lock_range *r = holder->ranges; r; r = r->next) {
			ask.start = r->start;
			ask.end = r->end;
			ask.type = r->type;
			fn(data, &ask);
		}
		ask = ask_of(holder);
		ask.whole = true;
		ask.type = holder->whole;
		if (ask.type != PROTO_UNLOCK)
			fn(data, &ask);
	}
}

struct req *nodelock_take_wait(struct lockbook *b, bool (*is_of)(void *data, uint64_t handle),
			       void *data, struct lock_ask *ret_ask)
{
	struct lock_waiter *w;
	struct req *req;

	TAILQ_FOREACH(w, &b->waiters, link)
		if (is_of(data, w->ask.handle))
			break;
	if (!w)
		return NULL;
	*ret_ask = w->ask;
	req = ((struct node_wait *)w)->req;
	req_on_interrupt(req, NULL, NULL);
	TAILQ_REMOVE(&b->waiters, w, link);
	free(w);
	return req;
}

void nodelock_give_up(struct lockbook *b, int err)
{
	struct lock_waiter *w;

	while ((w = TAILQ_FIRST(&b->waiters)))
		answer_wait((struct node_wait *)w, err);
}
