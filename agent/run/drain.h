/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes of ended runs: kept open and emptied for as long as somebody may write to them. */
#ifndef XSBX_AGENT_RUN_DRAIN_H
#define XSBX_AGENT_RUN_DRAIN_H

#include <stdbool.h>

#include "agent/core/loop.h"

/* Two for each run that left a process behind. Who writes to one more dies. */
#define SINK_MAX 1024u

struct sink {
	struct loop_source src;
	struct sink *next; /* older */
	struct sinks *all;
	bool fresh; /* of the last run: the interpreter still holds the other end */
};

struct sinks {
	struct loop *loop;
	struct sink *newest;
	unsigned n;
};

/**
 * sink_add() - Take over a pipe of a run that has ended
 * @all: Where it goes; the oldest is closed if there are SINK_MAX
 * @fd: Read end, non-blocking, owned by the sink from now on; -1 is ignored
 *
 * It is emptied from the next sink_listen() on.
 */
void sink_add(struct sinks *all, int fd);

/** sink_listen() - Watch all of them. */
void sink_listen(struct sinks *all);

/**
 * sink_hush() - A run begins: do not watch the pipes of the last one until sink_listen()
 * @all: Sinks
 *
 * The interpreter lets go of these pipes as it takes up the new run, and would wake us for that
 * twice before it comes to the code.
 */
void sink_hush(struct sinks *all);

/** sink_clear() - Close them all. */
void sink_clear(struct sinks *all);

#endif
