/* SPDX-License-Identifier: Apache-2.0 */
/* Spare jails, each running just an agent, for sandboxes that find the pool empty. */
#ifndef XSBX_VM_BACKEND_PREFORK_H
#define XSBX_VM_BACKEND_PREFORK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <uv.h>

struct backend;
struct backend_events;
struct backends;

/* Implemented by the process backend. */
struct prefork_ops {
	/* Return: a jail as described by these bytes, with a meaningless name, or NULL. */
	struct backend *(*make)(struct backends *all, const void *bytes, size_t len,
				const struct backend_events *events, void *data);

	/* Is it running? Its end may not have been reported yet. */
	bool (*alive)(const struct backend *b);

	/* Hands it to another owner, who receives its events from now on. */
	void (*give)(struct backend *b, const struct backend_events *events, void *data);
	void (*destroy)(struct backend *b);
};

/* Each jail that is kept, or being destroyed, holds the context. */
struct prefork {
	struct backends *all;
	const struct prefork_ops *ops;
	bool (*room)(void *data); /* for a guest that no user has asked for */
	void *data;
	uv_timer_t timer;
	TAILQ_HEAD(recipes, recipe) recipes; /* most recently used first */
	unsigned nrecipes;
};

/* The caller closes its timer. @room: called before each jail is made. */
void prefork_init(struct prefork *p, struct backends *all, const struct prefork_ops *ops,
		  bool (*room)(void *data), void *data);

/**
 * prefork_take() - Take a jail, and have another one made for next time
 * @p: Spare jails
 * @bytes: Description of the jail; jails with equal descriptions are interchangeable
 * @len: Its length
 * @events: Of the new owner
 * @data: Their first argument
 *
 * Return: a jail whose agent is listening, or NULL.
 */
struct backend *prefork_take(struct prefork *p, const void *bytes, size_t len,
			     const struct backend_events *events, void *data);

/* Destroys all spare jails. */
void prefork_clear(struct prefork *p);

#endif
