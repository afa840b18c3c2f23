/* SPDX-License-Identifier: Apache-2.0 */
/* What the guard and the spawner put in order when the daemon is gone: the mount, and its runtime directory. */
#ifndef XSBX_VM_SPAWN_GUARDED_H
#define XSBX_VM_SPAWN_GUARDED_H

#include <limits.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "vm/base/mount_table.h"
#include "wire.h"

#define GUARDED_WORDS 16u

/* Shared by the spawner and the guard. */
struct guarded {
	char mountpoint[PATH_MAX], runtime_dir[PATH_MAX]; /* or "" */
	char device[MOUNT_DEVICE_MAX];			  /* what is mounted there, or "" */
	/* Of the spawner's, at the end: what the log of the daemon can't be told any more; or "". */
	char words[512];
	pid_t guard; /* as it stands in the lock */
	_Atomic pid_t
		daemon;	  /* the spawner's child, one after the other; 0: there is none any more */
	atomic_int asked; /* the signal that the guard got last, or 0 */
	/* Lines of the spawner's log, while there is no daemon that could be told. */
	struct spawn_note word[GUARDED_WORDS];
	atomic_uint nwords;
};

/* The daemon has just mounted there. */
void guarded_mounted(struct guarded *g, const char *mountpoint);

/* Unmounts lazily while the daemon is running: as root, or through the set-id program that
 * mounted. What somebody else has mounted there since then, over ours or instead, stays. */
void guarded_unmount(const struct guarded *g);

/* The same when the daemon has ended, maybe long ago: not if there is a successor. */
void guarded_detach_dead(const struct guarded *g);

/* After a clean exit: removes the runtime directory, unless a new daemon uses it already, and its
 * parent directory, if no other mount of this user is using it. The daemon can't do this itself:
 * its confinement does not extend to the parents of its directories. */
void guarded_leave(const struct guarded *g);

/* The same after any other exit; also detaches the mount, if it is still there. The caller has
 * closed the connection: nobody serves it any more, and whoever asks it anything must not wait for
 * that. */
void guarded_clean(const struct guarded *g);

#endif
