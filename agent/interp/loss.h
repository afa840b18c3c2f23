/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of an interpreter's state between two runs, of which the next run is to hear. */
#ifndef XSBX_AGENT_INTERP_LOSS_H
#define XSBX_AGENT_INTERP_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/protocol.h"

/*
 * A run that ends the interpreter says so itself. An interpreter that ends while nothing runs would
 * be replaced without anybody's knowledge, and the next program would begin with nothing of what
 * the earlier ones had made. So that run is not begun, and ends with the loss as its reason; the
 * one after it runs on what is there. Whoever asks for a fresh interpreter has lost nothing.
 */
struct loss {
	bool due; /* nobody was told yet */
	enum proto_gone why;
	uint32_t number; /* exit status or signal */
};

/** loss_note() - State is gone; of several causes the first is kept. */
void loss_note(struct loss *l, enum proto_gone why, uint32_t number);

/**
 * loss_note_death() - State is gone with its process
 * @l: Loss
 * @wait_status: How the process ended
 * @killed: The agent has sent SIGKILL
 * @oom: The OOM killer has ended some process
 */
void loss_note_death(struct loss *l, int wait_status, bool killed, bool oom);

#endif
