/* SPDX-License-Identifier: Apache-2.0 */
/* Handles that are given out before the agent has opened the file. See early.h. */
#include "early.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static int compare(const struct early *a, const struct early *b)
{
	return a->handle < b->handle ? -1 : a->handle > b->handle;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
RB_GENERATE_STATIC(early_tree, early, link, compare)
#pragma GCC diagnostic pop

void early_init(struct early_table *t)
{
	RB_INIT(&t->tree);
	TAILQ_INIT(&t->held);
}

void early_fini(struct early_table *t)
{
	struct early *e;

	while ((e = RB_ROOT(&t->tree)))
		early_free(t, e);
}

struct early *early_new(struct early_table *t, uint64_t node, void *owner)
{
	struct early *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->handle = EARLY_HANDLE | ++t->last;
	e->node = node;
	e->since = t->requests;
	e->owner = owner;
	STAILQ_INIT(&e->waiting);
	TAILQ_INSERT_TAIL(&t->held, e, held);
	t->nheld++;
	RB_INSERT(early_tree, &t->tree, e);
	return e;
}

int early_restore(struct early_table *t, const struct early *from, void *owner)
{
	struct early *e = early_find(t, from->handle) ? NULL : calloc(1, sizeof(*e));

	if (!e)
		return early_find(t, from->handle) ? -EBADMSG : -ENOMEM;
	e->handle = from->handle;
	e->node = from->node;
	e->remote = from->remote;
	e->err = from->err;
	e->closed = from->closed;
	e->since = t->requests;
	e->owner = owner;
	STAILQ_INIT(&e->waiting);
	e->state = EARLY_FAILED;
	early_set(t, e, from->state);
	RB_INSERT(early_tree, &t->tree, e);
	return 0;
}

void early_free(struct early_table *t, struct early *e)
{
	assert(STAILQ_EMPTY(&e->waiting));
	if (e->state == EARLY_HELD)
		early_set(t, e, EARLY_FAILED);
	RB_REMOVE(early_tree, &t->tree, e);
	free(e);
}

struct early *early_find(const struct early_table *t, uint64_t handle)
{
	const struct early key = {.handle = handle};

	return RB_FIND(early_tree, (struct early_tree *)&t->tree, (struct early *)&key);
}

const struct early *early_first(const struct early_table *t)
{
	return RB_MIN(early_tree, (struct early_tree *)&t->tree);
}

const struct early *early_next(const struct early *e)
{
	return early_tree_RB_NEXT((struct early *)e);
}

struct early *early_held(const struct early_table *t)
{
	return TAILQ_FIRST(&t->held);
}

bool early_is_old(struct early_table *t)
{
	const struct early *e = early_held(t);

	t->requests++;
	return e && t->requests - e->since >= EARLY_REQUESTS_MAX;
}

void early_set(struct early_table *t, struct early *e, enum early_state state)
{
	if (e->state == EARLY_HELD) {
		TAILQ_REMOVE(&t->held, e, held);
		t->nheld--;
	}
	e->state = state;
	if (e->state == EARLY_HELD) {
		TAILQ_INSERT_TAIL(&t->held, e, held);
		t->nheld++;
	}
}

int early_wait(struct early *e, const struct vm_file *req, vm_file_fn fn, void *data)
{
	struct early_request *r;

	if (req->name || req->newname || req->data)
		return -EBADF;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->req = *req;
	r->fn = fn;
	r->data = data;
	STAILQ_INSERT_TAIL(&e->waiting, r, link);
	return 0;
}

struct early *early_locking(const struct early_table *t, uint64_t token)
{
	struct early_request *r;
	struct early *e;

	RB_FOREACH(e, early_tree, (struct early_tree *)&t->tree)
	STAILQ_FOREACH(r, &e->waiting, link)
	if (r->req.op == VM_LOCK && r->req.lock.token == token)
		return e;
	return NULL;
}
