/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes a mount has, written down so that the next start can end what a crash left. */
#ifndef XSBX_VM_SPAWN_REGISTRY_H
#define XSBX_VM_SPAWN_REGISTRY_H

#include <sys/types.h>

/* Notes the spawner @pid, and this process, in @runtime_dir/processes. Return: 0 or -errno. */
int registry_write(const char *runtime_dir, pid_t pid);

/**
 * registry_reap() - End what an instance that crashed has left
 * @runtime_dir: Directory of that instance
 *
 * Kills its spawner, with which all its sandboxes die, if it is still there. A process is only
 * signalled if it is the one that was noted: same boot, same number, same start time.
 *
 * Return: 0 if nothing is left, 1 if something was killed, -EBUSY if the instance is alive and
 * well, -ENOENT if nothing is noted, or -errno.
 */
int registry_reap(const char *runtime_dir);

#endif
