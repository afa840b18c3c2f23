/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon: all of it that there is one of in a process. */
#ifndef XSBX_FS_DAEMON_H
#define XSBX_FS_DAEMON_H

#include <stdbool.h>
#include <uv.h>

#include "fs/config/daemon.h"
#include "fs/fuse/devfuse.h"
#include "fs/keep/keeper.h"
#include "fs/keep/store.h"
#include "fs/session/fs.h"
#include "notice.h"
#include "prefetch.h"
#include "revival.h"
#include "succession.h"
#include "survival.h"

struct policy;
struct spawner;

/*
 * Theory of operation
 * -------------------
 * Start, in this order, because each step needs the previous ones: read the configuration; move to
 * the background (the parent waits until the file system is mounted); claim the runtime directory
 * and clean up after a killed instance; make the policy of what may be started, and fork the
 * spawner with it (vm/order/policy.c), while the process is small and has not read any untrusted
 * data. That is as far as this process comes: from here on it is the guard (vm/spawn/guard.c), and
 * waits for the daemon's end, whose status is its own. The daemon, the spawner's child, mounts,
 * creates the loop and struct vm; finally it drops all rights that are not needed any more
 * (vm/confine.c).
 *
 * Shutdown is always the same, whatever causes it (SIGTERM, SIGINT, unmount, death of the spawner):
 * sessions end and all waiting requests are answered, the sandboxes are closed, the mount is
 * detached, the loop ends, the daemon exits, the spawner removes what is left of it and exits, and
 * then the guard.
 */
struct daemon {
	uv_loop_t loop;
	uv_signal_t signals[3];
	uv_timer_t stop_timer;
	struct devfuse fuse;
	struct fs *fs;
	struct conf conf;
	struct spawner *spawner;
	struct policy *policy; /* that it has */
	struct succession succession;
	struct survival survival;
	struct revival revival;
	struct notice notice;
	char *const *argv;  /* as this program was called */
	bool heir;	    /* there is another daemon, or was, whose mount this is to take over */
	struct store store; /* until it is the keeper's */
	struct keeper *keeper; /* NULL: no session is kept */
	char *runtime_dir;
	int lock;   /* the spawner has it as well; whoever ends last gives it up */
	int parent; /* waits there, or -1: see background_enter() */
	bool stopping;
	bool kept;	 /* sessions were put to sleep, or there was none to keep */
	bool over;	 /* no signals and timers any more */
	bool late;	 /* the end was not waited for to its end: a thread may still be at work */
	unsigned rounds; /* that the end has waited for commits */
	struct prefetch prefetch;
	int status; /* of the process */
};

/* From its start to its end: mounts, serves, unmounts; or makes ready what is to be prefetched.
 * Return: the status of the process. */
int daemon_run(struct daemon *d);

/* An heir hears of its spawner, if it has not yet. Return: 0, or -errno with words: then d->spawner
 * is NULL, unless it can be told at least. */
int daemon_meet_spawner(struct daemon *d, const char **ret_words);

#endif
