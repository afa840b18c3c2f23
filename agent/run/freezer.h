/* SPDX-License-Identifier: Apache-2.0 */
/* Stops all user code for a while, so that its files can be examined. */
#ifndef XSBX_AGENT_RUN_FREEZER_H
#define XSBX_AGENT_RUN_FREEZER_H

#include <stdint.h>

#include "agent/core/loop.h"
#include "agent/core/proc.h"
#include "agent/core/proc_signal.h"
#include "agent/protocol.h"

enum freezer_state { FREEZER_THAWED, FREEZER_FREEZING, FREEZER_FROZEN, FREEZER_NSTATES };

/* What is in the way of stopping it all, and why it could not be: `why` is UNKNOWN where nothing but load can be blamed. */
struct obstacle {
	struct proc_runner who;
	unsigned met;	/* times that it was there, less those when another one was */
	unsigned ran;	/* ... and had run since the last time */
	unsigned waits; /* ... and was in the kernel */
	unsigned of_no; /* times that nothing ran, but new processes came */
	enum proto_unstopped why;
	char name[PROTO_COMM_MAX + 1];
};

struct freezer {
	struct loop *loop;
	void (*done)(struct freezer *f, int err); /* of freezer_start(); 0: all of it is stopped */
	enum freezer_state state;
	struct loop_timer timer;
	uint64_t until;
	unsigned clean;		  /* consecutive scans that found nothing running */
	struct proc_runner first; /* who ran in this scan; pid 0: nobody */
	struct obstacle obstacle; /* of the last freezer_start(), with `why` once it has failed */
	uint64_t switches;	  /* proc_switches() when it became FROZEN */
	struct proc_set
		before;	     /* processes that were stopped already, and that we did not have to */
	struct proc_set all; /* those that there were when it became FROZEN */
};

/**
 * freezer_start() - Stop all user code
 * @f: Freezer with loop and done set, THAWED
 *
 * `done` is called once from the loop, unless freezer_thaw() is called first. If not all of it could be
 * stopped in time, it is continued.
 *
 * Return: 0 or -errno.
 */
int freezer_start(struct freezer *f);

/**
 * freezer_check() - Has nothing run since everything was stopped?
 * @f: Freezer, FROZEN
 *
 * Return: 0, or -ECANCELED if something has.
 */
int freezer_check(const struct freezer *f);

/** freezer_thaw() - Continue it, except what was stopped before. Does nothing when THAWED. */
void freezer_thaw(struct freezer *f);

#endif
