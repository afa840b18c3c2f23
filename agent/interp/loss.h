/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of an interpreter's state between two runs, which is reported by the next run. */
#ifndef XSBX_AGENT_INTERP_LOSS_H
#define XSBX_AGENT_INTERP_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/protocol.h"

/*
 * A run that ends the interpreter reports that itself. An interpreter that ends while idle would be
 * replaced silently, and the next program would not find the state that it expects. So the next run
 * is not started, and ends with the loss as its reason; the one after it runs normally. Nothing is
 * lost if a fresh interpreter is requested.
 */
struct loss {
	bool due; /* not reported yet */
	enum proto_gone why;
	uint32_t number; /* exit status or signal */
};

/** loss_note() - Record a loss of state; the first of several causes is kept. */
void loss_note(struct loss *l, enum proto_gone why, uint32_t number);

/**
 * loss_note_death() - Record a loss of state because the process has ended
 * @l: Loss
 * @wait_status: How the process ended
 * @killed: The agent has sent SIGKILL
 * @oom: The OOM killer has ended some process
 */
void loss_note_death(struct loss *l, int wait_status, bool killed, bool oom);

#endif
