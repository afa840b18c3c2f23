/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent says of a run's way through its guest, on its way into the daemon's log. */
#ifndef XSBX_VM_GUEST_AGENT_TRACE_H
#define XSBX_VM_GUEST_AGENT_TRACE_H

#include <stdint.h>

#include "agent/protocol.h"

/*
 * An agent may be anybody's. So a line is cut and made printable, its time is held between when it was asked and now,
 * and of many that come at once most are only counted. What they say is never believed.
 */
struct agent_trace {
	/* log_now() when it was told to say what happens: by HELLO, and by the last RUN. */
	uint64_t greeted, asked;
	uint32_t run;	 /* which that was */
	unsigned room;	 /* so many lines may still come at once */
	uint64_t filled; /* when that was last added to */
	unsigned lost;	 /* lines that had no room */
};

#define AGENT_TRACE_BURST    100u
#define AGENT_TRACE_EVERY_NS 20000000u /* one more line has room */

struct agent_trace_line {
	char text[PROTO_TRACED_MAX + 1];
	uint64_t at;   /* as log_now() */
	unsigned lost; /* so many before it */
};

/**
 * agent_trace_take() - Read a TRACED frame
 * @t: Of this agent
 * @id: Of its header
 * @in: Payload
 * @now: log_now()
 * @ret_line: Result
 *
 * Return: 1, 0 if there is no room for the line, or -EPROTO.
 */
int agent_trace_take(struct agent_trace *t, uint32_t id, struct proto_in *in, uint64_t now,
		     struct agent_trace_line *ret_line);

#endif
