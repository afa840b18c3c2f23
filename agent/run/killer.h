/* SPDX-License-Identifier: Apache-2.0 */
/* Ends processes of user code, round by round, until none is left. */
#ifndef XSBX_AGENT_RUN_KILLER_H
#define XSBX_AGENT_RUN_KILLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/core/loop.h"
#include "agent/core/proc.h"

struct killer {
	struct loop *loop;
	struct loop_timer timer;
	bool active;
	uint64_t since;
	unsigned clean;	 /* consecutive scans that found nothing, see CLEAN */
	uint64_t looked; /* now_us() when the last of them was over */
	bool chases;	 /* a forking process was not found by scans */
	bool hard;	 /* SIGKILL from now on */
	bool asked;	 /* SIGTERM was sent */
	uint64_t until;	 /* now_us() until which SIGTERM may take effect, or 0 */
	pid_t over;	 /* process whose end need not be waited for */
	struct proc_scope scope;
	bool all; /* whatever `scope` says */
	void (*done)(struct killer *k);
};

/**
 * killer_start() - Start ending user code
 * @k: Killer with loop and done set; done is called once, from the loop, when nothing is left
 * @scope: Which, or NULL for all; its set must stay valid until done
 * @grace_us: Send SIGTERM first and wait for so long; 0: kill at once
 *
 * The wait ends early when nothing is left but the process of killer_ignore().
 */
void killer_start(struct killer *k, const struct proc_scope *scope, uint64_t grace_us);

/** killer_ignore() - This process may be killed as soon as it is the only one left. */
void killer_ignore(struct killer *k, pid_t pid);

/** killer_hurry() - End the grace period after SIGTERM. */
void killer_hurry(struct killer *k);

/**
 * killer_all() - End all user code and wait for that, outside the loop
 *
 * For the end of the agent itself; gives up after a few seconds.
 */
void killer_all(void);

#endif
