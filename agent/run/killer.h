/* SPDX-License-Identifier: Apache-2.0 */
/* Ends processes of user code, round by round, until none is left. */
#ifndef XSBX_AGENT_RUN_KILLER_H
#define XSBX_AGENT_RUN_KILLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/core/loop.h"

struct proc_set;

struct killer {
	struct loop *loop;
	struct loop_timer timer;
	bool active;
	uint64_t since;
	unsigned clean; /* how sure it is that nothing is left, see CLEAN */
	bool chases;	/* somebody forks, and was not found */
	bool hard;	/* no more questions are asked */
	bool asked;	/* SIGTERM was sent */
	uint64_t until; /* now_us() until which that is given time, or 0 */
	pid_t over;	/* it has done what it had to: nobody waits for its end */
	const struct proc_set *keep;
	pid_t not_kept;
	void (*done)(struct killer *k);
};

/**
 * killer_start() - Begin to end user code
 * @k: Killer with loop and done set; done is called once, from the loop, when nothing is left
 * @keep: Processes to be left alone, with their descendants; NULL for none; must stay until done
 * @not_kept: Process to be killed in any case, or 0
 * @grace_us: So long it has to act on SIGTERM first; 0: it is not asked
 *
 * When nothing is left but what killer_ignore() names, that time is over.
 */
void killer_start(struct killer *k, const struct proc_set *keep, pid_t not_kept, uint64_t grace_us);

/** killer_ignore() - This process may be killed as soon as it is the only one. */
void killer_ignore(struct killer *k, pid_t pid);

/** killer_hurry() - The time for programs to act on SIGTERM is over. */
void killer_hurry(struct killer *k);

/**
 * killer_all() - End all user code and wait for that, outside the loop
 *
 * For the end of the agent itself; gives up after a few seconds.
 */
void killer_all(void);

#endif
