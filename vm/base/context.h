/* SPDX-License-Identifier: Apache-2.0 */
/* What everything on the sandboxes' side is given: the loop, the spawner, where to tell news, and what must have
 * ended before the machinery has. */
#ifndef XSBX_VM_BASE_CONTEXT_H
#define XSBX_VM_BASE_CONTEXT_H

#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

#include "util.h"

struct spawner;

/* Something that is to be done from the loop, soon. Embedded, zeroed. */
struct deferred {
	void (*run)(struct deferred *d);
	bool queued;
	TAILQ_ENTRY(deferred) link;
};

/* Set once, by whoever makes the context. Called from the loop, but for `event`. */
struct context_ops {
	/* News that belong to no sandbox, one line. */
	void (*event)(void *data, const char *kind, const char *words);
	/* Somebody has called context_wake(): who waits for a place or for processors may go on. */
	void (*woken)(void *data);
	/* Likewise context_work(): the background may have something to do. */
	void (*work)(void *data);
};

/*
 * - `idle` runs as long as something is deferred, or `waking` is set.
 * - `holds` counts what has to end before the context can: programs, worker threads, handles.
 */
struct context {
	uv_loop_t *loop;
	struct spawner *spawner; /* or NULL */
	char *cache_dir;
	char *runtime_dir; /* this mount's own directory */
	bool closing;	   /* nothing new is begun */
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
 * context_init() - Begin
 * @c: Zeroed; embedded by its owner
 * @loop: The loop that everything runs on
 * @spawner: Starts processes, or NULL; stays the caller's
 * @cache_dir: Copied
 * @runtime_dir: Copied
 * @ops: Kept
 * @data: First argument of @ops' callbacks
 *
 * context_start() has to follow before anything can wait for the loop. Return: 0 or -ENOMEM; then context_fini()
 * is due all the same.
 */
int context_init(struct context *c, uv_loop_t *loop, struct spawner *spawner, const char *cache_dir,
		 const char *runtime_dir, const struct context_ops *ops, void *data);

/* Gives it its handle. Nothing that can fail may come behind it. */
void context_start(struct context *c);

/* Its last handle, when nothing is held any more; @closed follows from the loop. */
void context_close(struct context *c, void (*closed)(struct context *c));
void context_fini(struct context *c);

/* Tells news; @words as for printf(), cut at 511 bytes. */
void context_event(struct context *c, const char *kind, const char *words, ...) printf_like(3, 4);

/* Something was given back, or has ended. `woken` follows from the loop. */
void context_wake(struct context *c);

/* What the background looks at has changed. */
void context_work(struct context *c);

/* Has @d run from the loop; once, however often it is asked for until then. */
void context_defer(struct context *c, struct deferred *d);

/* Not any more. */
void context_undefer(struct context *c, struct deferred *d);

/* The context does not end before each hold was released, which wakes. */
void context_hold(struct context *c);
void context_release(struct context *c);

#endif
