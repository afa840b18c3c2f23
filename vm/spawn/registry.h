/* SPDX-License-Identifier: Apache-2.0 */
/* Records the spawner of a mount, so that the next start can end one that is left of a crash. */
#ifndef XSBX_VM_SPAWN_REGISTRY_H
#define XSBX_VM_SPAWN_REGISTRY_H

#include <sys/types.h>

/* Records the spawner @pid in @runtime_dir/processes. Return: 0 or -errno. */
int registry_write(const char *runtime_dir, pid_t pid);

/**
 * registry_reap() - End processes left by an instance that crashed
 * @runtime_dir: Directory of that instance, whose lock the caller has: so nobody serves there any
 * 	more
 *
 * Kills its spawner if it still exists; all its sandboxes die with it. A process is only
 * signalled if it is the recorded one: same boot, same process id, same start time.
 *
 * Return: 0 if nothing is left, 1 if something was killed, -ENOENT if nothing is recorded, or
 * -errno.
 */
int registry_reap(const char *runtime_dir);

#endif
