/* SPDX-License-Identifier: Apache-2.0 */
/* The context that is passed to everything in vm/. */
#include "context.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

int context_init(struct context *c, uv_loop_t *loop, struct spawner *spawner, const char *cache_dir,
		 const char *runtime_dir, const struct context_ops *ops, void *data)
{
	c->loop = loop;
	c->spawner = spawner;
	c->ops = ops;
	c->data = data;
	TAILQ_INIT(&c->deferred);
	c->cache_dir = strdup(cache_dir);
	c->runtime_dir = strdup(runtime_dir);
	return c->cache_dir && c->runtime_dir ? 0 : -ENOMEM;
}

void context_start(struct context *c)
{
	uv_idle_init(c->loop, &c->idle);
	c->idle.data = c;
}

void context_fini(struct context *c)
{
	free(c->cache_dir);
	free(c->runtime_dir);
	free(c->shared_dir);
}

static void on_idle_closed(uv_handle_t *handle)
{
	struct context *c = handle->data;

	c->closed(c);
}

void context_close(struct context *c, void (*closed)(struct context *c))
{
	assert(!c->holds);
	c->closed = closed;
	uv_close((uv_handle_t *)&c->idle, on_idle_closed);
}

void context_event(struct context *c, const char *kind, const char *words, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, words);
	vsnprintf(line, sizeof(line), words, ap);
	va_end(ap);
	c->ops->event(c->data, kind, line);
}

/* ---- what waits for the loop ---- */

static void on_idle(uv_idle_t *handle)
{
	struct context *c = handle->data;
	struct deferred *d;

	while ((d = TAILQ_FIRST(&c->deferred))) {
		TAILQ_REMOVE(&c->deferred, d, link);
		d->queued = false;
		d->run(d);
	}
	if (c->waking) {
		c->waking = false;
		c->ops->woken(c->data);
	}
	if (TAILQ_EMPTY(&c->deferred) && !c->waking)
		uv_idle_stop(&c->idle);
}

void context_defer(struct context *c, struct deferred *d)
{
	if (d->queued)
		return;
	d->queued = true;
	TAILQ_INSERT_TAIL(&c->deferred, d, link);
	uv_idle_start(&c->idle, on_idle);
}

void context_undefer(struct context *c, struct deferred *d)
{
	if (d->queued)
		TAILQ_REMOVE(&c->deferred, d, link);
	d->queued = false;
}

void context_wake(struct context *c)
{
	c->waking = true;
	uv_idle_start(&c->idle, on_idle);
}

void context_work(struct context *c)
{
	if (!c->closing)
		c->ops->work(c->data);
}

void context_hold(struct context *c)
{
	c->holds++;
}

void context_release(struct context *c)
{
	assert(c->holds);
	c->holds--;
	context_wake(c);
}
