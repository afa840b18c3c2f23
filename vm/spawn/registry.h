/* SPDX-License-Identifier: Apache-2.0 */
/* Records the processes of a mount, so that the next start can end those left by a crash. */
#ifndef XSBX_VM_SPAWN_REGISTRY_H
#define XSBX_VM_SPAWN_REGISTRY_H

#include <sys/types.h>

/* Records the spawner @pid, and this process, in @runtime_dir/processes. Return: 0 or -errno. */
int registry_write(const char *runtime_dir, pid_t pid);

/**
 * registry_reap() - End processes left by an instance that crashed
 * @runtime_dir: Directory of that instance
 *
 * Kills its spawner if it still exists; all its sandboxes die with it. A process is only
 * signalled if it is the recorded one: same boot, same process id, same start time.
 *
 * Return: 0 if nothing is left, 1 if something was killed, -EBUSY if the instance is still
 * running, -ENOENT if nothing is recorded, or -errno.
 */
int registry_reap(const char *runtime_dir);

#endif
