/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes of ended runs: kept open and drained as long as a process may write to them. */
#ifndef XSBX_AGENT_OUTPUT_DRAIN_H
#define XSBX_AGENT_OUTPUT_DRAIN_H

#include <stdbool.h>
#include <sys/queue.h>

#include "agent/core/loop.h"

/* Two for each run that left a process behind. Beyond that, writers get SIGPIPE. */
#define DRAIN_MAX 1024u

struct drain {
	struct loop_source src;
	TAILQ_ENTRY(drain) link;
	struct drains *all;
	bool fresh; /* of the last run: the interpreter still has the other end open */
};

struct drains {
	struct loop *loop;
	TAILQ_HEAD(drain_list, drain) list; /* the newest first */
	unsigned n;
};

/** drain_init() - Prepare; @loop is where they are watched. */
void drain_init(struct drains *all, struct loop *loop);

/**
 * drain_add() - Add a pipe of a run that has ended
 * @all: Drains; the oldest is closed if there are DRAIN_MAX
 * @fd: Read end, non-blocking, owned by the drain from now on; -1 is ignored
 *
 * It is drained from the next drain_listen() on.
 */
void drain_add(struct drains *all, int fd);

/** drain_listen() - Watch all of them. */
void drain_listen(struct drains *all);

/**
 * drain_hush() - A run starts: stop watching the pipes of the last one until drain_listen()
 * @all: Drains
 *
 * The interpreter closes these pipes when it starts the new run, which would wake us up
 * twice before it executes the code.
 */
void drain_hush(struct drains *all);

/** drain_clear() - Close them all. */
void drain_clear(struct drains *all);

#endif
