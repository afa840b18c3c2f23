/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner: the small process that is the parent of every sandbox's processes. */
#ifndef XSBX_SPAWNER_H
#define XSBX_SPAWNER_H

#include <sys/types.h>

struct spawner;

/**
 * spawner_start() - Fork the spawner; call it first of all, before any thread or loop exists
 * @ret_spawner: Result; end it with spawner_stop()
 *
 * The spawner outlives a killed daemon just long enough to kill every child, detach the mount it
 * was told of, and remove the contents of the runtime directory. It keeps none of the caller's
 * descriptors, its terminal, or its working directory.
 *
 * Return: 0 or -errno.
 */
int spawner_start(struct spawner **ret_spawner);

/**
 * spawner_guard() - What to clean up if the daemon dies without a word
 * @sp: Spawner
 * @mountpoint: Absolute path to detach if nobody answers there any more, or NULL
 * @runtime_dir: Absolute path of a directory to remove with its contents, or NULL
 *
 * The last call counts.
 *
 * Return: 0 or -errno.
 */
int spawner_guard(struct spawner *sp, const char *mountpoint, const char *runtime_dir);

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

/* Ends the spawner: it kills what is left and exits, without touching what it guarded; waits for
 * that, a second at most. One that is still joined to a loop leaves that unusable. NULL is fine. */
void spawner_stop(struct spawner *sp);

#endif
