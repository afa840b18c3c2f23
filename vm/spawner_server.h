/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's own side of spawner.h: what its process does after the fork. */
#ifndef XSBX_SPAWNER_SERVER_H
#define XSBX_SPAWNER_SERVER_H

#include "guard.h"
#include "jail_internal.h"
#include "spawner_wire.h"

/* A request, taken apart; the pointers lead into the datagram. */
struct spawn_job {
	struct spawn_request req;
	char *argv[SPAWN_STRINGS_MAX + 1], *envp[SPAWN_STRINGS_MAX + 1];
	int fds[SPAWN_FDS_MAX];
	bool jailed;
	struct jail_spec jail;
};

/* What a child writes to its status pipe if it does not come to run its program. */
struct spawn_error {
	uint32_t step;		 /* enum spawn_step */
	int32_t error;		 /* -errno */
	struct jail_fault fault; /* of SPAWN_STEP_JAIL */
};

/**
 * spawner_serve() - Be the spawner
 * @sock: SEQPACKET socket to the daemon; every other descriptor is closed
 * @guarded: To be filled in when the daemon says what
 *
 * All signals are blocked when it is called. Serves until the other end is closed, cleans up, and
 * exits.
 */
__attribute__((noreturn)) void spawner_serve(int sock, struct guarded *guarded);

/**
 * spawner_child() - Be a child: arrange everything, and run the program
 * @job: What was asked for
 * @status_fd: Write end of a pipe of which the spawner alone has the other; closed when the program
 *	       runs, gets a struct spawn_error if it does not
 * @cell: Of a jailed one, and
 * @go: the pipe that jail_clone() gave
 */
__attribute__((noreturn)) void spawner_child(const struct spawn_job *job, int status_fd,
					     struct jail_cell *cell, int go);

#endif
