/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's process, from its fork (server.c) to the exec of what it starts (exec.c). */
#ifndef XSBX_VM_SPAWN_SERVER_H
#define XSBX_VM_SPAWN_SERVER_H

#include "guard.h"
#include "vm/jail/setup.h"
#include "vm/task/ram_copy.h"
#include "vm/task/secret_source.h"
#include "spawner.h"
#include "wire.h"

/* A descriptor of the request, and its number in the child. */
struct spawn_target {
	uint32_t from;
	int to;
};

/*
 * A child to be started, filled in by the spawner's rules. Zeroed at first.
 *
 * - `argv` and `envp` are terminated by NULL. The program is argv[0], an absolute path, inside the
 *   jail if there is one.
 * - The child has only the descriptors in `target`; 0, 1, 2 are /dev/null unless given.
 * - The strings and the jail are owned by the rules, and valid until the next job.
 */
struct spawn_job {
	uint32_t flags; /* SPAWN_OOM_FIRST, ... */
	const char *argv[SPAWN_STRINGS_MAX + 1], *envp[SPAWN_STRINGS_MAX + 1];
	struct spawn_target target[SPAWN_FDS_MAX];
	size_t ntargets;
	const struct jail_spec *jail; /* or NULL */
	struct ram_copy ram;	      /* of SPAWN_RAM */
	struct secret_source secret;  /* of SPAWN_SECRET */
	int fds[SPAWN_FDS_MAX];	      /* of the request; not used by the rules */
	size_t nfds;
};

/* What a child writes to its status pipe if it fails to execute its program. */
struct spawn_error {
	uint32_t step;		 /* enum spawn_step */
	int32_t error;		 /* -errno */
	struct jail_fault fault; /* of SPAWN_STEP_JAIL */
};

/* What the daemon has of the spawner. */
struct spawner_ends {
	int sock; /* SEQPACKET, to the spawner */
	int tie;  /* see guard.h */
	pid_t pid;
	uint32_t last_id; /* of what was asked for by another daemon before, or 0 */
};

/**
 * spawner_fork() - As spawner_start(), which puts it on top of the ends
 * @rules: What may be started
 * @ret_ends: In the daemon: its ends
 *
 * Return: as spawner_start().
 */
int spawner_fork(const struct spawner_rules *rules, struct spawner_ends *ret_ends);

/* Return: a spawner that owns these ends; or NULL without memory, and they stay the caller's. */
struct spawner *spawner_new(const struct spawner_ends *ends);

/**
 * spawner_serve() - Main function of the spawner
 * @rules: What it may start
 * @sock: SEQPACKET socket to the daemon
 * @listener: Who wants to take the mount over comes there; or -1
 * @kin: Guard and daemon
 *
 * All signals are blocked when it is called; all descriptors that it does not need are closed.
 * Serves until the daemon ends, or the guard, cleans up, tells the guard, and exits.
 */
__attribute__((noreturn)) void spawner_serve(const struct spawner_rules *rules, int sock,
					     int listener, const struct guard_kin *kin);

/* Checks a job filled in by the rules, and that the daemon may pass these descriptors.
 * Return: 0 or -errno. */
int spawner_check(const struct spawn_job *job);

/**
 * spawner_exec() - Main function of a child: set everything up, and execute the program
 * @job: Its job
 * @status_fd: Write end of a pipe whose read end only the spawner has; closed on exec, receives
 *	       a struct spawn_error on failure
 * @cell: Of a jailed child, and
 * @go: the pipe from jail_clone()
 */
__attribute__((noreturn)) void spawner_exec(const struct spawn_job *job, int status_fd,
					    struct jail_cell *cell, int go);

#endif
