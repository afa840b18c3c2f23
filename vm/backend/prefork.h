/* SPDX-License-Identifier: Apache-2.0 */
/* Jails kept in reserve, each with an agent and nothing else, for whoever finds the pool empty. */
#ifndef XSBX_VM_BACKEND_PREFORK_H
#define XSBX_VM_BACKEND_PREFORK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <uv.h>

struct backend;
struct backend_events;
struct backends;

/* Whoever knows how to make one: the process backend. */
struct prefork_ops {
	/* Return: a jail that is like these bytes say, with a name of no meaning, or NULL. */
	struct backend *(*make)(struct backends *all, const void *bytes, size_t len,
				const struct backend_events *events, void *data);

	/* Its end may not have been told yet. */
	bool (*alive)(const struct backend *b);

	/* Gives it to somebody else, who hears of it from now on. */
	void (*give)(struct backend *b, const struct backend_events *events, void *data);
	void (*destroy)(struct backend *b);
};

/* Each jail that is kept, or is being taken down, holds the context. */
struct prefork {
	struct backends *all;
	const struct prefork_ops *ops;
	bool (*room)(void *data); /* for somebody who can do without */
	void *data;
	uv_timer_t timer;
	TAILQ_HEAD(recipes, recipe) recipes; /* used last first */
	unsigned nrecipes;
};

/* Its timer is the caller's to close. @room: set once, asked before each is made. */
void prefork_init(struct prefork *p, struct backends *all, const struct prefork_ops *ops,
		  bool (*room)(void *data), void *data);

/**
 * prefork_take() - Ask for a jail, and have another one made for next time
 * @p: Where they are kept
 * @bytes: All that makes two jails alike
 * @len: So many bytes
 * @events: Of whoever gets it
 * @data: Their first argument
 *
 * Return: one whose agent listens, or NULL.
 */
struct backend *prefork_take(struct prefork *p, const void *bytes, size_t len,
			     const struct backend_events *events, void *data);

/* Takes down all that are kept. */
void prefork_clear(struct prefork *p);

#endif
