/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner: the small process that is the parent of every sandbox's processes. */
#ifndef XSBX_SPAWNER_H
#define XSBX_SPAWNER_H

struct spawner;

/**
 * spawner_start() - Fork the spawner; call it first of all, before any thread or loop exists
 * @ret_spawner: Result
 *
 * The spawner outlives a killed daemon just long enough to kill every child, detach the mount it
 * was told of, and remove the runtime directory.
 *
 * Return: 0 or -errno.
 */
int spawner_start(struct spawner **ret_spawner);

/**
 * spawner_guard() - What to clean up if the daemon dies without a word
 * @sp: Spawner
 * @mountpoint: Absolute path to detach, or NULL
 * @runtime_dir: Absolute path of a directory to remove with its contents, or NULL
 *
 * Return: 0 or -errno.
 */
int spawner_guard(struct spawner *sp, const char *mountpoint, const char *runtime_dir);

/* Ends the spawner: it kills what is left and exits; waits for that, a second at most. */
void spawner_stop(struct spawner *sp);

#endif
