/* SPDX-License-Identifier: Apache-2.0 */
/* Receives an agent's trace of a run, for the daemon's log. */
#ifndef XSBX_VM_GUEST_AGENT_TRACE_H
#define XSBX_VM_GUEST_AGENT_TRACE_H

#include <stdint.h>

#include "agent/protocol.h"

/*
 * Agents are not trusted. So lines are truncated and made printable, their time is clamped between
 * the request and now, and a flood of lines is mostly just counted. Their content is never
 * interpreted.
 */
struct agent_trace {
	/* log_now() when tracing was requested: by HELLO, and by the last RUN. */
	uint64_t greeted, asked;
	uint32_t run;	 /* number of the last RUN */
	unsigned room;	 /* number of lines that are accepted at once */
	uint64_t filled; /* when `room` was last increased */
	unsigned lost;	 /* number of dropped lines */
};

/* Dozens of short runs a second are traced whole, and a flood takes some 50 kB of log a second. */
#define AGENT_TRACE_BURST    400u
#define AGENT_TRACE_EVERY_NS 5000000u /* interval of increasing `room` */

struct agent_trace_line {
	char text[PROTO_TRACED_MAX + 1];
	uint64_t at;   /* as log_now() */
	unsigned lost; /* number of lines dropped before it */
};

/**
 * agent_trace_take() - Read a TRACED frame
 * @t: State for this agent
 * @id: `id` of its header
 * @in: Payload
 * @now: log_now()
 * @ret_line: Result
 *
 * Return: 1, 0 if the line is dropped, or -EPROTO.
 */
int agent_trace_take(struct agent_trace *t, uint32_t id, struct proto_in *in, uint64_t now,
		     struct agent_trace_line *ret_line);

#endif
