/* SPDX-License-Identifier: Apache-2.0 */
/* Jails kept in reserve, each with an agent and nothing else, for whoever finds the pool empty. */
#include "prefork.h"

#include <string.h>

#include "vm/vm_internal.h"

/*
 * Theory of operation
 * -------------------
 * The pool has sandboxes with an interpreter that was exercised. When it is empty, or is to be,
 * somebody waits for all of it: namespaces, control groups, mounts, the agent, the interpreter. All
 * but the last is the same for all sandboxes of a kind, and takes most of the time of a shell. So one
 * of each kind that was asked for lately is kept here, an empty jail of a megabyte. It has no name
 * yet, and no variables: they come with the agent's first messages, as they always do.
 *
 * A recipe is compared byte for byte, so nothing is handed out that differs in any way from what
 * would have been made. It is made anew some milliseconds after it was taken, when whoever took
 * it has most likely got his result, and only if there is room for somebody who can do without. One
 * that does not come up is tried again later and later: each takes the spawner's time, which is everybody's.
 */

#define RECIPES_MAX 4u
#define REFILL_MS   5u
#define RETRY_MS    1000u
#define REST_MS	    60000u
#define IDLE_MS	    60000u

struct recipe {
	TAILQ_ENTRY(recipe) link;
	struct shelf *shelf;
	struct backend *kept; /* or NULL */
	bool up, spoilt;      /* of `kept` */
	unsigned failures;    /* in a row */
	uint64_t used_at, retry_at;
	size_t len;
	char bytes[];
};

static void on_timer(uv_timer_t *timer);

static void look_in(struct shelf *shelf, uint64_t ms)
{
	if (!shelf->vm->ctx.closing)
		uv_timer_start(&shelf->timer, on_timer, ms, 0);
}

/* ---- what those on the shelf say; whoever takes one hears it himself ---- */

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
	look_in(r->shelf, 0);
}

static void on_console(void *data, const void *bytes, size_t len)
{
	(void)data;
	(void)bytes;
	(void)len;
}

static const struct backend_events waiting_events = {
	.up = on_up, .console = on_console, .down = on_down};

/* ---- what those say that are taken down ---- */

static void on_late_up(void *data)
{
	(void)data;
}

static void on_late_down(void *data, const struct problem *problem)
{
	(void)data;
	(void)problem;
}

static void on_destroyed(void *data)
{
	struct vm *vm = data;

	context_release(&vm->ctx);
}

static const struct backend_events parting_events = {
	.up = on_late_up, .console = on_console, .down = on_late_down, .destroyed = on_destroyed};

/* ---- the shelf ---- */

static void part_with(struct recipe *r)
{
	struct shelf *shelf = r->shelf;
	struct backend *b = r->kept;

	r->kept = NULL;
	r->up = r->spoilt = false;
	shelf->ops->give(b, &parting_events, shelf->vm);
	shelf->ops->destroy(b);
}

static void remove_recipe(struct recipe *r)
{
	if (r->kept)
		part_with(r);
	TAILQ_REMOVE(&r->shelf->recipes, r, link);
	r->shelf->nrecipes--;
	free(r);
}

static void refill(struct recipe *r)
{
	struct vm *vm = r->shelf->vm;

	admit_look(vm);
	if (!admission_room(&vm->admission, backend_process.overhead_mb))
		return;
	r->kept = r->shelf->ops->make(vm, r->bytes, r->len, &waiting_events, r);
	if (r->kept)
		context_hold(&vm->ctx);
}

static void on_timer(uv_timer_t *timer)
{
	struct shelf *shelf = timer->data;
	const uint64_t now = uv_now(shelf->vm->ctx.loop);
	struct recipe *r, *next;

	for (r = TAILQ_FIRST(&shelf->recipes); r; r = next) {
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
	if (!TAILQ_EMPTY(&shelf->recipes))
		look_in(shelf, RETRY_MS);
}

void shelf_init(struct shelf *shelf, struct vm *vm, const struct shelf_ops *ops)
{
	shelf->vm = vm;
	shelf->ops = ops;
	TAILQ_INIT(&shelf->recipes);
	uv_timer_init(vm->ctx.loop, &shelf->timer);
	shelf->timer.data = shelf;
}

static struct recipe *find(const struct shelf *shelf, const void *bytes, size_t len)
{
	struct recipe *r;

	TAILQ_FOREACH(r, &shelf->recipes, link) {
		if (r->len == len && memcmp(r->bytes, bytes, len) == 0)
			return r;
	}
	return NULL;
}

static void add_recipe(struct shelf *shelf, const void *bytes, size_t len)
{
	struct recipe *r = calloc(1, sizeof(*r) + len);

	if (!r)
		return;
	if (shelf->nrecipes == RECIPES_MAX)
		remove_recipe(TAILQ_LAST(&shelf->recipes, recipes));
	r->shelf = shelf;
	r->used_at = uv_now(shelf->vm->ctx.loop);
	r->len = len;
	memcpy(r->bytes, bytes, len);
	TAILQ_INSERT_HEAD(&shelf->recipes, r, link);
	shelf->nrecipes++;
}

struct backend *shelf_take(struct shelf *shelf, const void *bytes, size_t len,
			   const struct backend_events *events, void *data)
{
	struct recipe *r = find(shelf, bytes, len);
	struct backend *b = NULL;

	if (shelf->vm->ctx.closing)
		return NULL;
	look_in(shelf, REFILL_MS);
	if (!r) {
		add_recipe(shelf, bytes, len);
		return NULL;
	}
	TAILQ_REMOVE(&shelf->recipes, r, link);
	TAILQ_INSERT_HEAD(&shelf->recipes, r, link);
	r->used_at = uv_now(shelf->vm->ctx.loop);
	if (r->kept && r->up && !r->spoilt && shelf->ops->alive(r->kept)) {
		b = r->kept;
		r->kept = NULL;
		r->up = false;
		shelf->ops->give(b, events, data);
		context_release(&shelf->vm->ctx);
	}
	return b;
}

void shelf_clear(struct shelf *shelf)
{
	while (!TAILQ_EMPTY(&shelf->recipes))
		remove_recipe(TAILQ_FIRST(&shelf->recipes));
	uv_timer_stop(&shelf->timer);
}
