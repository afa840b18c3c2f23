/* SPDX-License-Identifier: Apache-2.0 */
/* The guard: cleans up the mount point and the runtime directory when no other process is left to do it. */
#ifndef XSBX_VM_SPAWN_GUARD_H
#define XSBX_VM_SPAWN_GUARD_H

#include <limits.h>
#include <sys/types.h>

/* Shared by the spawner and the guard. */
struct guarded {
	char mountpoint[PATH_MAX], runtime_dir[PATH_MAX]; /* or "" */
};

/**
 * guard_start() - Fork the guard, and from it the spawner
 * @ret_guarded: Filled in by the spawner, with guard_set()
 * @ret_tie: In the daemon: a descriptor for log_relay(); its closing tells the guard that the daemon is gone
 *
 * @ret_spawner: In the daemon: the spawner's process id
 *
 * Return: 0 in the spawner; in the daemon, the guard's process id (it exits after the spawner, and has
 * cleaned up if the spawner did not); or -errno.
 */
pid_t guard_start(struct guarded **ret_guarded, int *ret_tie, pid_t *ret_spawner);

/* Either may be NULL. */
void guard_set(struct guarded *g, const char *mountpoint, const char *runtime_dir);

/* Unmounts lazily while the daemon is running: as root, or through the set-id program that mounted. */
void guard_unmount(const struct guarded *g);

/* After a clean exit: removes the runtime directory, unless a new daemon uses it already, and its parent
 * directory, if no other mount of this user is using it. The daemon can't do this itself: its confinement
 * does not extend to the parents of its directories. */
void guard_leave(const struct guarded *g);

/* The same after any other exit; also detaches the mount point, if nothing serves it any more. */
void guard_clean(const struct guarded *g);

/**
 * guard_isolate() - Leave the caller's terminal, working directory and descriptors
 * @fd: Descriptor to keep
 * @name: New name of the process
 *
 * Return: @fd's new number, or -errno.
 */
int guard_isolate(int fd, const char *name);

#endif
