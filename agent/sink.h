/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes of ended runs: kept open and emptied for as long as somebody may write to them. */
#ifndef XSBX_AGENT_SINK_H
#define XSBX_AGENT_SINK_H

#include "loop.h"

#define SINK_MAX 64u

struct sink {
	struct loop_source src;
	struct sink *next; /* older */
	struct sinks *all;
};

struct sinks {
	struct loop *loop;
	struct sink *newest;
	unsigned n;
};

/**
 * sink_add() - Empty a pipe from now on
 * @all: Where it goes; the oldest is closed if there are SINK_MAX
 * @fd: Read end, non-blocking, owned by the sink from now on; -1 is ignored
 */
void sink_add(struct sinks *all, int fd);

/** sink_clear() - Close them all. */
void sink_clear(struct sinks *all);

#endif
