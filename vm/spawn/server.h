/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's own side of spawner.h: what its process does after the fork. */
#ifndef XSBX_VM_SPAWN_SERVER_H
#define XSBX_VM_SPAWN_SERVER_H

#include "guard.h"
#include "vm/jail/setup.h"
#include "spawner.h"
#include "wire.h"

/* A descriptor of the request's, and its number in the child. */
struct spawn_target {
	uint32_t from;
	int to;
};

/*
 * What is to be done, filled in by the spawner's rules. It begins as all zeroes.
 *
 * - `argv` and `envp` are terminated by NULL. The program is argv[0], an absolute path; in a jail, one
 *   inside.
 * - The child has the descriptors in `target` and no others, but that 0, 1, 2 are /dev/null unless given.
 * - The strings and the jail are the rules', and stay to the next job.
 */
struct spawn_job {
	uint32_t flags; /* SPAWN_OOM_FIRST, ... */
	const char *argv[SPAWN_STRINGS_MAX + 1], *envp[SPAWN_STRINGS_MAX + 1];
	struct spawn_target target[SPAWN_FDS_MAX];
	size_t ntargets;
	const struct jail_spec *jail; /* or NULL */
	int fds[SPAWN_FDS_MAX];	      /* of the request; not for the rules */
	size_t nfds;
};

/* What a child writes to its status pipe if it does not come to run its program. */
struct spawn_error {
	uint32_t step;		 /* enum spawn_step */
	int32_t error;		 /* -errno */
	struct jail_fault fault; /* of SPAWN_STEP_JAIL */
};

/**
 * spawner_serve() - Be the spawner
 * @rules: What it may start
 * @sock: SEQPACKET socket to the daemon; every other descriptor is closed
 * @guarded: To be filled in with what the rules say
 *
 * All signals are blocked when it is called. Serves until the other end is closed, cleans up, and
 * exits.
 */
__attribute__((noreturn)) void spawner_serve(const struct spawner_rules *rules, int sock,
					     struct guarded *guarded);

/* Is what the rules came up with something that can be done, with descriptors that the daemon may give?
 * Return: 0 or -errno. */
int spawner_check(const struct spawn_job *job);

/**
 * spawner_child() - Be a child: arrange everything, and run the program
 * @job: What is to be done
 * @status_fd: Write end of a pipe of which the spawner alone has the other; closed when the program
 *	       runs, gets a struct spawn_error if it does not
 * @cell: Of a jailed one, and
 * @go: the pipe that jail_clone() gave
 */
__attribute__((noreturn)) void spawner_child(const struct spawn_job *job, int status_fd,
					     struct jail_cell *cell, int go);

#endif
