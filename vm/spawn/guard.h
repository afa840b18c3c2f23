/* SPDX-License-Identifier: Apache-2.0 */
/* The guard: the process that was started, which outlives its spawner and its daemon and puts in
 * order what they left. */
#ifndef XSBX_VM_SPAWN_GUARD_H
#define XSBX_VM_SPAWN_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct guarded;

/* What a process of the three has of the others. */
struct guard_kin {
	struct guarded *guarded;
	pid_t daemon; /* in the spawner */
	int told;     /* in the spawner: guard_tell(); shows POLLERR once the guard is gone */
	int tie;      /* in the daemon: for log_relay() */
};

enum guard_role { GUARD_SPAWNER, GUARD_DAEMON };

/**
 * guard_start() - Become the guard: fork the spawner and, from it, the daemon
 * @runtime_dir: To be removed at the end, whoever lives then; or NULL
 * @background: Give up the terminal, and log to the system's log what the daemon sends by
 * 	log_relay()
 * @ret_kin: Result
 *
 * Call it before there is a thread or a loop. The caller does not return from it: it passes
 * SIGTERM, SIGINT and SIGHUP on to the daemon, and ends as the daemon does, when that and the
 * spawner have ended or the spawner has said so.
 *
 * Return: enum guard_role in the children, the spawner's with all signals blocked; or, in the
 * caller, -errno.
 */
int guard_start(const char *runtime_dir, bool background, struct guard_kin *ret_kin);

/* In the spawner: another daemon has taken the place of the one before. Return: the signal that was
 * asked of that, or 0. */
int guard_follow(struct guarded *g, pid_t daemon);

/* In the spawner: all is in order, and the daemon has ended with this status of wait(2). */
void guard_tell(int told, int status);

/**
 * guard_isolate() - Leave the caller's terminal, working directory and descriptors
 * @fds: Descriptors to keep, renumbered if they are in the way; -1 is ignored
 * @n: How many
 * @name: New name of the process
 *
 * Return: 0 or -errno.
 */
int guard_isolate(int *const fds[], size_t n, const char *name);

#endif
