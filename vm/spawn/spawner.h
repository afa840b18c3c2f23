/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner: the small process that is the parent of every sandbox's processes. */
#ifndef XSBX_VM_SPAWN_SPAWNER_H
#define XSBX_VM_SPAWN_SPAWNER_H

#include <stddef.h>
#include <sys/types.h>

#include "vm/base/log.h"

struct spawn_job;
struct spawner;

/* What a spawner does, settled when it is forked. */
struct spawner_rules {
	/* What is to be done for a request: called in the spawner, with `data` as it was at the fork.
	 * For the daemon it is policy_job(). Return: 0, or -errno if nothing is. */
	int (*job)(const void *data, const void *request, size_t len, size_t nfds,
		   struct spawn_job *ret_job);
	const void *data;
	const char *
		mountpoint; /* absolute; detached at the end, if a dead mount of ours is there; or NULL */
	const char
		*runtime_dir; /* absolute; removed with its contents if the daemon dies; or NULL */
	int patience_ms; /* with a child that does not come to run its program, or does not die; or 0 */
};

/**
 * spawner_start() - Fork the spawner; call it before any thread or loop exists
 * @rules: Only needed during the call
 * @ret_spawner: Result; end it with spawner_stop()
 *
 * The spawner outlives a killed daemon just long enough to kill every child, detach the mount, and
 * remove the contents of the runtime directory. It keeps none of the caller's descriptors, its terminal,
 * or its working directory.
 *
 * Return: 0 or -errno.
 */
int spawner_start(const struct spawner_rules *rules, struct spawner **ret_spawner);

/* The mount is there, and is to be detached if the daemon dies without a word. Return: 0 or -errno. */
int spawner_mounted(struct spawner *sp);

/**
 * spawner_unmount() - Detach the mount point that is guarded, which has to be the caller's own mount
 * @sp: Spawner
 *
 * The daemon can't do it itself once it has confined itself. It is done before spawner_stop() returns.
 */
void spawner_unmount(struct spawner *sp);

/**
 * spawner_watch() - Be told if the spawner dies, which it never should: nothing can start then
 * @sp: Spawner
 * @died: Called once at most, from the loop; the mount should shut down
 * @data: Its argument
 */
void spawner_watch(struct spawner *sp, void (*died)(void *data), void *data);

pid_t spawner_pid(const struct spawner *sp);

/* What the spawner says from now on, in the daemon's log; it begins with the level that it was forked with. */
void spawner_log_level(struct spawner *sp, enum log_level level);

/* Has messages go to the system's log from now on, until spawner_stop(). */
void spawner_log(const struct spawner *sp);

/* Ends the spawner: it kills what is left and exits, without touching what it guarded; waits for
 * that, a second at most. One that is still joined to a loop leaves that unusable. NULL is fine. */
void spawner_stop(struct spawner *sp);

#endif
