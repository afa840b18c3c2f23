/* SPDX-License-Identifier: Apache-2.0 */
/* The agent as a process of this host: what the process backend and the one for tests share. */
#ifndef XSBX_VM_BACKEND_AGENT_PROCESS_H
#define XSBX_VM_BACKEND_AGENT_PROCESS_H

#include "backend.h"
#include "vm/base/reader.h"
#include "vm/spawn/client.h"

#define AGENT_PROCESS_AGENT_FD 3 /* the agent's end of the stream */
#define AGENT_PROCESS_CARD_FD  4 /* where the jail leaves its network card, before the agent runs */

/* Embedded in a struct backend, which sets the callbacks of `child` and `gone`. */
struct agent_process {
	struct backends *all;
	const struct backend_events *events;
	void *data;
	struct child child; /* its `data` is the hosted */
	struct reader console;
	bool child_gone, destroying;
	unsigned nopen;
	void (*gone)(struct agent_process *h); /* nothing is left of it: free it */
};

/* Starts `child` with these two as its stream and its output. Return: 0 or -errno. */
typedef int (*agent_process_spawn_fn)(struct agent_process *h, const struct backend_spec *spec,
				      int stream, int console);

/**
 * agent_process_start() - Start the agent
 * @h: With all, events, data and gone set, the rest zeroed
 * @spec: Handed to @spawn
 * @spawn: Called once
 * @ret_stream: Our end of the stream; the caller's
 *
 * Return: 0 or -errno; then there is nothing to end.
 */
int agent_process_start(struct agent_process *h, const struct backend_spec *spec,
			agent_process_spawn_fn spawn, int *ret_stream);

/* As `started` of the child: the stream is there from the beginning. */
void agent_process_started(struct child *c);

/* The child is no more; the backend goes when it is destroyed. */
void agent_process_over(struct agent_process *h, const struct problem *p);

/* For struct backend_ops. */
void agent_process_destroy(struct agent_process *h);
void agent_process_drain(struct agent_process *h);

/* The process id, or 0 if it does not run. */
pid_t agent_process_pid(const struct agent_process *h);

#endif
