/* SPDX-License-Identifier: Apache-2.0 */
/* The agent as a process of the host: shared by the process backend and the one for tests. */
#ifndef XSBX_VM_BACKEND_AGENT_PROCESS_H
#define XSBX_VM_BACKEND_AGENT_PROCESS_H

#include "backend.h"
#include "vm/spawn/program.h"

#define AGENT_PROCESS_AGENT_FD 3 /* the agent's end of the stream */
#define AGENT_PROCESS_CARD_FD  4 /* where the jail puts its network card, before the agent runs */

/* Embedded in a struct backend, which sets the members up to `gone`, and zeroes the rest. Its
 * output is the console. */
struct agent_process {
	struct backends *all;
	const struct backend_events *events;
	void *data;
	void (*started)(struct agent_process *h); /* or NULL */
	/* Explains why it did not start, or has ended. */
	void (*explain)(const struct program *p, struct problem *ret_problem);
	void (*gone)(struct agent_process *h); /* everything is released: free it */

	struct program program;
	bool over, destroying;
	struct deferred last;
};

/**
 * agent_process_start() - Start the agent
 * @h: See struct agent_process
 * @order: Which; its descriptors are the stream, the card, if there is one, and the output
 * @label: As in struct backend_spec, or NULL
 * @card: The other end of the socket for its card, or -1
 * @ret_stream: Our end of the stream; owned by the caller
 *
 * Return: 0 or -errno; on failure there is nothing to destroy.
 */
int agent_process_start(struct agent_process *h, const struct order *order,
			const struct log_label *label, int card, int *ret_stream);

/* For struct backend_ops. */
void agent_process_destroy(struct agent_process *h);

/* The process id, or 0 if it is not running. */
pid_t agent_process_pid(const struct agent_process *h);

/* Likewise: put() of @h's part of a record, and what of take() is @h's. */
void agent_process_put(const struct agent_process *h, struct buf *out, struct fdbag *fds);
int agent_process_take(struct agent_process *h, const struct record_reader *fields,
		       struct fdbag *fds, const struct log_label *label);

#endif
