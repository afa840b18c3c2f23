/* SPDX-License-Identifier: Apache-2.0 */
/* What all modules of vm/ share: the loop, the spawner, a place to report events, and a count of
 * what has to end before struct vm may end. */
#ifndef XSBX_VM_BASE_CONTEXT_H
#define XSBX_VM_BASE_CONTEXT_H

#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

#include "util.h"

struct spawner;
struct turn;

/* A callback to be run from the loop, soon. Embedded, zeroed. */
struct deferred {
	void (*run)(struct deferred *d);
	bool queued;
	TAILQ_ENTRY(deferred) link;
};

/* Set once, by whoever makes the context. Called from the loop, except `event`. */
struct context_ops {
	/* An event that belongs to no sandbox, one line. */
	void (*event)(void *data, const char *kind, const char *words);
	/* context_wake() was called: those waiting for a place or for processors may go on. */
	void (*woken)(void *data);
	/* context_work() was called: there may be background work. */
	void (*work)(void *data);
};

/*
 * - `idle` runs while something is deferred or `waking` is set.
 * - `holds` counts what has to end before the context may: programs, worker threads, handles.
 */
struct context {
	uv_loop_t *loop;
	struct spawner *spawner; /* or NULL */
	struct turn *turn;	 /* or NULL: everything is said at once */
	char *cache_dir;
	char *runtime_dir; /* this mount's own directory */
	char *shared_dir;  /* with what root has made for all, see trusted.h; or NULL. Owned */
	bool publish;	   /* `cache_dir` is that: what is made there is for all to read */
	bool closing;	   /* nothing new may start */
	bool spawner_lost;
	const struct context_ops *ops;
	void *data;

	unsigned holds;
	bool waking;
	uv_idle_t idle;
	TAILQ_HEAD(deferred_list, deferred) deferred;
	void (*closed)(struct context *c);
};

/**
 * context_init() - Initialize a context
 * @c: Zeroed; embedded by its owner
 * @loop: The loop that everything runs on
 * @spawner: Starts processes, or NULL; owned by the caller
 * @cache_dir: Copied
 * @runtime_dir: Copied
 * @ops: Kept
 * @data: First argument of @ops' callbacks
 *
 * context_start() has to follow before anything can be deferred. Return: 0 or -ENOMEM;
 * context_fini() is due in both cases.
 */
int context_init(struct context *c, uv_loop_t *loop, struct spawner *spawner, const char *cache_dir,
		 const char *runtime_dir, const struct context_ops *ops, void *data);

/* Opens its handle. Nothing that can fail may follow. */
void context_start(struct context *c);

/* Closes its handle, once nothing is held any more; @closed is called from the loop. */
void context_close(struct context *c, void (*closed)(struct context *c));
void context_fini(struct context *c);

/* Reports an event; @words as for printf(), cut off at 511 bytes. */
void context_event(struct context *c, const char *kind, const char *words, ...) printf_like(3, 4);

/* Something was released or has ended: `woken` is called from the loop. */
void context_wake(struct context *c);

/* Something that background work depends on has changed: `work` is called from the loop. */
void context_work(struct context *c);

/* Runs @d from the loop; once, however often it is deferred until then. */
void context_defer(struct context *c, struct deferred *d);

/* Cancels it. */
void context_undefer(struct context *c, struct deferred *d);

/* The context does not end before each hold is released. Releasing also wakes. */
void context_hold(struct context *c);
void context_release(struct context *c);

#endif
