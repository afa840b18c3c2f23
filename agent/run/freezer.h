/* SPDX-License-Identifier: Apache-2.0 */
/* Stops all user code for a while, so that somebody can look at what it has made. */
#ifndef XSBX_AGENT_RUN_FREEZER_H
#define XSBX_AGENT_RUN_FREEZER_H

#include <stdint.h>

#include "agent/core/loop.h"
#include "agent/core/proc.h"

enum freezer_state { FREEZER_THAWED, FREEZER_FREEZING, FREEZER_FROZEN, FREEZER_NSTATES };

struct freezer {
	struct loop *loop;
	void (*done)(struct freezer *f,
		     int err); /* of freezer_start(); 0: all of it stands still */
	enum freezer_state state;
	struct loop_timer timer;
	uint64_t until;
	unsigned clean;		/* scans in a row that found nothing that runs */
	uint64_t switches;	/* proc_switches() since when it is FROZEN */
	struct proc_set before; /* what stood still already, and is to go on doing so */
};

/**
 * freezer_start() - Stop all user code
 * @f: Freezer with loop and done set, THAWED
 *
 * `done` is called once from the loop, unless freezer_thaw() comes first. If not all of it could be
 * stopped in time, it goes on.
 *
 * Return: 0 or -errno.
 */
int freezer_start(struct freezer *f);

/**
 * freezer_check() - Has nothing run since all of it stood still?
 * @f: Freezer, FROZEN
 *
 * Return: 0, -ECANCELED if something has, or -errno.
 */
int freezer_check(const struct freezer *f);

/** freezer_thaw() - Let it go on, but for what stood still before. Does nothing when THAWED. */
void freezer_thaw(struct freezer *f);

#endif
