/* SPDX-License-Identifier: Apache-2.0 */
/* The guard: the process that was started, which outlives its spawner and its daemon and puts in
 * order what they left. */
#ifndef XSBX_VM_SPAWN_GUARD_H
#define XSBX_VM_SPAWN_GUARD_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "vm/base/mount_table.h"
#include "wire.h"

#define GUARD_WORDS 16u

/* Shared by the spawner and the guard. */
struct guarded {
	char mountpoint[PATH_MAX], runtime_dir[PATH_MAX]; /* or "" */
	char device[MOUNT_DEVICE_MAX];			  /* what is mounted there, or "" */
	/* Of the spawner's, at the end: what the log of the daemon can't be told any more; or "". */
	char words[512];
	_Atomic pid_t
		daemon;	  /* the spawner's child, one after the other; 0: there is none any more */
	atomic_int asked; /* the signal that the guard got last, or 0 */
	/* Lines of the spawner's log, while there is no daemon that could be told. */
	struct spawn_note word[GUARD_WORDS];
	atomic_uint nwords;
};

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

/* The daemon has just mounted there. */
void guard_mounted(struct guarded *g, const char *mountpoint);

/* Unmounts lazily while the daemon is running: as root, or through the set-id program that
 * mounted. What somebody else has mounted there since then, over ours or instead, stays. */
void guard_unmount(const struct guarded *g);

/* The same when the daemon has ended, maybe long ago: not if there is a successor. */
void guard_detach_dead(const struct guarded *g);

/* After a clean exit: removes the runtime directory, unless a new daemon uses it already, and its
 * parent directory, if no other mount of this user is using it. The daemon can't do this itself:
 * its confinement does not extend to the parents of its directories. */
void guard_leave(const struct guarded *g);

/* The same after any other exit; also detaches the mount, if it is still there. The caller has
 * closed the connection: nobody serves it any more, and whoever asks it anything must not wait for
 * that. */
void guard_clean(const struct guarded *g);

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
