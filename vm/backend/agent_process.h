/* SPDX-License-Identifier: Apache-2.0 */
/* The agent as a process of this host: what the process backend and the one for tests share. */
#ifndef XSBX_VM_BACKEND_AGENT_PROCESS_H
#define XSBX_VM_BACKEND_AGENT_PROCESS_H

#include "backend.h"
#include "vm/spawn/program.h"

#define AGENT_PROCESS_AGENT_FD 3 /* the agent's end of the stream */
#define AGENT_PROCESS_CARD_FD  4 /* where the jail leaves its network card, before the agent runs */

/* Embedded in a struct backend, which sets all up to `gone`, and zeroes the rest. What it says is the console. */
struct agent_process {
	struct backends *all;
	const struct backend_events *events;
	void *data;
	void (*started)(struct agent_process *h); /* or NULL */
	/* Why did it not start, or end? */
	void (*explain)(const struct program *p, struct problem *ret_problem);
	void (*gone)(struct agent_process *h); /* nothing is left of it: free it */

	struct program program;
	bool over, destroying;
	struct deferred last;
};

/**
 * agent_process_start() - Start the agent
 * @h: See there
 * @order: Which; its descriptors are the stream, the card, if there is one, and the output
 * @label: As in struct backend_spec, or NULL
 * @card: The other end of where its card is left, or -1
 * @ret_stream: Our end of the stream; the caller's
 *
 * Return: 0 or -errno; then there is nothing to end.
 */
int agent_process_start(struct agent_process *h, const struct order *order,
			const struct log_label *label, int card, int *ret_stream);

/* For struct backend_ops. */
void agent_process_destroy(struct agent_process *h);

/* The process id, or 0 if it does not run. */
pid_t agent_process_pid(const struct agent_process *h);

#endif
