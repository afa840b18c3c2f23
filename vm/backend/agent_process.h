/* SPDX-License-Identifier: Apache-2.0 */
/* The agent as a process of this host: what the process backend and the one for tests share. */
#ifndef XSBX_VM_BACKEND_AGENT_PROCESS_H
#define XSBX_VM_BACKEND_AGENT_PROCESS_H

#include "backend.h"
#include "vm/base/reader.h"
#include "vm/spawn/client.h"

#define HOSTED_AGENT_FD 3 /* the agent's end of the stream */
#define HOSTED_CARD_FD	4 /* where the jail leaves its network card, before the agent runs */

/* Embedded in a struct backend, which sets the callbacks of `child` and `gone`. */
struct hosted {
	struct vm *vm;
	const struct backend_events *events;
	void *data;
	struct child child; /* its `data` is the hosted */
	struct reader console;
	bool child_gone, destroying;
	unsigned nopen;
	void (*gone)(struct hosted *h); /* nothing is left of it: free it */
};

/* Starts `child` with these two as its stream and its output. Return: 0 or -errno. */
typedef int (*hosted_spawn_fn)(struct hosted *h, const struct backend_spec *spec, int stream,
			       int console);

/**
 * hosted_start() - Start the agent
 * @h: With vm, events, data and gone set, the rest zeroed
 * @spec: Handed to @spawn
 * @spawn: Called once
 * @ret_stream: Our end of the stream; the caller's
 *
 * Return: 0 or -errno; then there is nothing to end.
 */
int hosted_start(struct hosted *h, const struct backend_spec *spec, hosted_spawn_fn spawn,
		 int *ret_stream);

/* As `started` of the child: the stream is there from the beginning. */
void hosted_started(struct child *c);

/* The child is no more; the backend goes when it is destroyed. */
void hosted_over(struct hosted *h, const struct problem *p);

/* For struct backend_ops. */
void hosted_destroy(struct hosted *h);
void hosted_drain(struct hosted *h);

/* The process id, or 0 if it does not run. */
pid_t hosted_pid(const struct hosted *h);

#endif
