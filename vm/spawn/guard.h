/* SPDX-License-Identifier: Apache-2.0 */
/* Clearing up when nobody else is left to do it: the mount point and the runtime directory. */
#ifndef XSBX_VM_SPAWN_GUARD_H
#define XSBX_VM_SPAWN_GUARD_H

#include <limits.h>
#include <sys/types.h>

/* Shared by the spawner and the guard. */
struct guarded {
	char mountpoint[PATH_MAX], runtime_dir[PATH_MAX]; /* or "" */
};

/**
 * guard_start() - Fork the guard, and from it the spawner; in both this returns
 * @ret_guarded: What the spawner fills in with guard_set()
 * @ret_tie: In the daemon: a descriptor for log_relay(), whose end tells the guard that the daemon is gone
 *
 * @ret_spawner: In the daemon: the spawner's process id
 *
 * Return: 0 in the spawner, in the daemon the guard's process id (it ends when the spawner has ended,
 * and cleared up if that did not), or -errno.
 */
pid_t guard_start(struct guarded **ret_guarded, int *ret_tie, pid_t *ret_spawner);

/* Either may be NULL. */
void guard_set(struct guarded *g, const char *mountpoint, const char *runtime_dir);

/* Detaches the mount point, of a daemon that is there: as root, or by the set-id program that mounted. */
void guard_unmount(const struct guarded *g);

/* After an end in good order: removes the runtime directory, and the one above it if no other mount of
 * this user has its own there, unless a successor of the daemon has it by now. The daemon can't: it may not
 * change what lies around its own directories. */
void guard_leave(const struct guarded *g);

/* Likewise after any other end; and detaches the mount point, if nobody answers there any more. */
void guard_clean(const struct guarded *g);

/**
 * guard_isolate() - Leave the caller's terminal, working directory and descriptors
 * @fd: The one to keep
 * @name: For the process
 *
 * Return: @fd's new number, or -errno.
 */
int guard_isolate(int fd, const char *name);

#endif
