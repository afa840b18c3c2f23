/* SPDX-License-Identifier: Apache-2.0 */
/* The agent: combines a connection, interpreters, a run and files. */
#ifndef XSBX_AGENT_AGENT_H
#define XSBX_AGENT_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/chance.h"
#include "agent/core/conn.h"
#include "agent/files/files.h"
#include "agent/files/pack.h"
#include "agent/files/unpack.h"
#include "agent/run/freezer.h"
#include "agent/core/loop.h"
#include "agent/interp/loss.h"
#include "agent/job/job.h"
#include "agent/run/run.h"
#include "agent/guest/swap.h"
#include "agent/interp/spare.h"

struct guest_env;

/* A pending answer to the host. */
struct debt {
	bool due;
	uint32_t id;
};

struct agent {
	const struct guest_env *env;
	struct loop loop;
	struct conn conn;
	struct files files;
	struct packer packer;
	struct unpacker unpacker;
	struct interp_config config;
	struct chance chance;
	uint32_t exact;	      /* PROTO_EXACT_*, as SETUP has said it last */
	uint64_t clock_ns;    /* with PROTO_EXACT_CLOCK: when the clock has begun */
	struct spares spares; /* the interpreters; the active one executes runs */
	struct run run;
	struct jobs jobs; /* programs beside it */
	struct loss loss; /* loss of state to report with the next run */
	struct loop_source signals, kmsg;
	struct loop_timer kmsg_timer;

	struct swap_guard guard;
	uint64_t blamed; /* when a run was ended because memory was exhausted */
	struct freezer freezer;
	struct debt frozen; /* FROZEN to FREEZE; see freeze.h */
	bool tells_who;	    /* ... which says who could not be stopped */
	bool preparing;	    /* the interpreter gets ready for being copied, before that */
	struct loop_timer prepare;
	unsigned prepares;
	struct killer sweeper;	/* RESET ends all user code, not just the interpreter */
	bool wanted;		/* there should be an interpreter */
	struct debt hello;	/* HELLO_OK, after the interpreter was given `seed` */
	struct debt ready;	/* READY to SETUP or RESET */
	struct debt warm;	/* READY to WARM */
	struct debt lease;	/* LEASED to LEASE; see lease.h */
	struct loop_timer look; /* ... which waits for an interpreter to be at rest */
	unsigned looks;
	struct debt resting; /* RESTING to REST; see still.h */
	bool asked_timers;   /* interpreters of theirs, for that */
	struct loop_timer
		again; /* ... which looks again: one may be on the way to where it waits */
	unsigned agains;
	pid_t newest;	 /* process when it was last seen that there are but interpreters */
	bool nudged;	 /* which have been nudged since */
	uint32_t traced; /* run from whose arrival the time of the trace counts, or 0 */
	bool seed_due;	 /* `seed` has to be sent to the interpreter */
	bool seeding;	 /* it was sent, but not acknowledged yet */
	bool restart;	 /* the interpreter was killed to be started again */
	bool retried;	 /* one that was killed while starting was restarted, for this debt */
	uint8_t seed[PROTO_ENTROPY];
	uint64_t idle_since; /* now_us() when the interpreter became ready */
};

/**
 * agent_init() - Initialize the agent
 * @a: Agent, zeroed
 * @env: Its environment; must stay valid
 * @fd: Connection to the host
 * @local: @fd is a socket whose end of file ends the agent
 * @ret_step: On failure, what failed, as a static string
 *
 * Return: 0 or -errno.
 */
int agent_init(struct agent *a, const struct guest_env *env, int fd, bool local,
	       const char **ret_step);

/** agent_fini() - End user code, release everything. */
void agent_fini(struct agent *a);

/**
 * agent_restart() - Replace the interpreter
 * @a: Agent, with or without one
 *
 * The new one is started by the next agent_advance().
 */
void agent_restart(struct agent *a);

#endif
