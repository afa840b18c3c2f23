/* SPDX-License-Identifier: Apache-2.0 */
/* Spare jails, each running just an agent, for sandboxes that find the pool empty. */
#include "prefork.h"

#include <string.h>

#include "backend.h"

/*
 * Theory of operation
 * -------------------
 * The pool has sandboxes with an exercised interpreter. When it is empty, or disabled, users have to
 * wait for everything: namespaces, control groups, mounts, the agent, the interpreter. All except the
 * last are the same for all sandboxes of a kind, and take most of the start-up time of a shell. So one
 * jail of each recently requested kind is kept here, empty, with a megabyte of memory. It has no name
 * and no variables yet: these are always sent with the agent's first messages.
 *
 * A recipe is compared byte for byte, so a jail is never used if it differs in any way from what would
 * have been made. A new one is made some milliseconds after one was taken, when the user most likely
 * has his result, and only if there is room for something optional. If it fails to start, retries are
 * increasingly delayed: each takes time of the spawner, which all share.
 */

#define RECIPES_MAX 4u
#define REFILL_MS   5u
#define RETRY_MS    1000u
#define REST_MS	    60000u
#define IDLE_MS	    60000u

struct recipe {
	TAILQ_ENTRY(recipe) link;
	struct prefork *p;
	struct backend *kept; /* or NULL */
	bool up, spoilt;      /* of `kept` */
	unsigned failures;    /* in a row */
	uint64_t used_at, retry_at;
	size_t len;
	char bytes[];
};

static void on_timer(uv_timer_t *timer);

static void look_in(struct prefork *p, uint64_t ms)
{
	if (!p->all->ctx->closing)
		uv_timer_start(&p->timer, on_timer, ms, 0);
}

/* ---- what those in reserve say; whoever takes one hears it himself ---- */

static void on_up(void *data)
{
	struct recipe *r = data;

	r->up = true;
	r->failures = 0;
}

static void on_down(void *data, const struct problem *problem)
{
	struct recipe *r = data;

	(void)problem;
	r->spoilt = true;
	look_in(r->p, 0);
}

static void on_console(void *data, const void *bytes, size_t len)
{
	(void)data;
	(void)bytes;
	(void)len;
}

static const struct backend_events waiting_events = {
	.up = on_up, .console = on_console, .down = on_down};

/* ---- those that are taken down say nothing any more but that they are gone ---- */

static void on_destroyed(void *data)
{
	context_release(data);
}

static const struct backend_events parting_events = {.destroyed = on_destroyed};

/* ---- the reserve ---- */

static void part_with(struct recipe *r)
{
	struct prefork *p = r->p;
	struct backend *b = r->kept;

	r->kept = NULL;
	r->up = r->spoilt = false;
	p->ops->give(b, &parting_events, p->all->ctx);
	p->ops->destroy(b);
}

static void remove_recipe(struct recipe *r)
{
	if (r->kept)
		part_with(r);
	TAILQ_REMOVE(&r->p->recipes, r, link);
	r->p->nrecipes--;
	free(r);
}

static void refill(struct recipe *r)
{
	struct prefork *p = r->p;

	if (!p->room(p->data))
		return;
	r->kept = p->ops->make(p->all, r->bytes, r->len, &waiting_events, r);
	if (r->kept)
		context_hold(p->all->ctx);
}

static void on_timer(uv_timer_t *timer)
{
	struct prefork *p = timer->data;
	const uint64_t now = uv_now(p->all->ctx->loop);
	struct recipe *r, *next;

	for (r = TAILQ_FIRST(&p->recipes); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (r->spoilt) {
			part_with(r);
			r->retry_at = now + MIN(RETRY_MS << MIN(r->failures, 6u), REST_MS);
			r->failures++;
		}
		if (now - r->used_at >= IDLE_MS)
			remove_recipe(r);
		else if (!r->kept && now >= r->retry_at)
			refill(r);
	}
	if (!TAILQ_EMPTY(&p->recipes))
		look_in(p, RETRY_MS);
}

void prefork_init(struct prefork *p, struct backends *all, const struct prefork_ops *ops,
		  bool (*room)(void *data), void *data)
{
	p->all = all;
	p->ops = ops;
	p->room = room;
	p->data = data;
	TAILQ_INIT(&p->recipes);
	uv_timer_init(all->ctx->loop, &p->timer);
	p->timer.data = p;
}

static struct recipe *find(const struct prefork *p, const void *bytes, size_t len)
{
	struct recipe *r;

	TAILQ_FOREACH(r, &p->recipes, link) {
		if (r->len == len && memcmp(r->bytes, bytes, len) == 0)
			return r;
	}
	return NULL;
}

static void add_recipe(struct prefork *p, const void *bytes, size_t len)
{
	struct recipe *r = calloc(1, sizeof(*r) + len);

	if (!r)
		return;
	if (p->nrecipes == RECIPES_MAX)
		remove_recipe(TAILQ_LAST(&p->recipes, recipes));
	r->p = p;
	r->used_at = uv_now(p->all->ctx->loop);
	r->len = len;
	memcpy(r->bytes, bytes, len);
	TAILQ_INSERT_HEAD(&p->recipes, r, link);
	p->nrecipes++;
}

struct backend *prefork_take(struct prefork *p, const void *bytes, size_t len,
			     const struct backend_events *events, void *data)
{
	struct recipe *r = find(p, bytes, len);
	struct backend *b = NULL;

	if (p->all->ctx->closing)
		return NULL;
	look_in(p, REFILL_MS);
	if (!r) {
		add_recipe(p, bytes, len);
		return NULL;
	}
	TAILQ_REMOVE(&p->recipes, r, link);
	TAILQ_INSERT_HEAD(&p->recipes, r, link);
	r->used_at = uv_now(p->all->ctx->loop);
	if (r->kept && r->up && !r->spoilt && p->ops->alive(r->kept)) {
		b = r->kept;
		r->kept = NULL;
		r->up = false;
		p->ops->give(b, events, data);
		context_release(p->all->ctx);
	}
	return b;
}

void prefork_clear(struct prefork *p)
{
	while (!TAILQ_EMPTY(&p->recipes))
		remove_recipe(TAILQ_FIRST(&p->recipes));
	uv_timer_stop(&p->timer);
}
