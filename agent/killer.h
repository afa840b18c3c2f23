/* SPDX-License-Identifier: Apache-2.0 */
/* Ends processes of user code, round by round, until none is left. */
#ifndef XSBX_AGENT_KILLER_H
#define XSBX_AGENT_KILLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "loop.h"

struct proc_set;

struct killer {
	struct loop *loop;
	struct loop_timer timer;
	bool active;
	uint64_t since;
	unsigned clean; /* scans in a row that found nothing */
	bool hard;	/* no more questions are asked */
	const struct proc_set *keep;
	pid_t not_kept;
	void (*done)(struct killer *k);
};

/**
 * killer_start() - Begin to end user code
 * @k: Killer with loop and done set; done is called once, from the loop, when nothing is left
 * @keep: Processes to be left alone, with their descendants; NULL for none; must stay until done
 * @not_kept: Process to be killed in any case, or 0
 */
void killer_start(struct killer *k, const struct proc_set *keep, pid_t not_kept);

/**
 * killer_all() - End all user code and wait for that, outside the loop
 *
 * For the end of the agent itself; gives up after a few seconds.
 */
void killer_all(void);

#endif
