/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps sessions in the state directory: finds them at the start, writes what changes, puts them to sleep at the end. */
#ifndef XSBX_FS_KEEP_KEEPER_H
#define XSBX_FS_KEEP_KEEPER_H

#include <stdbool.h>

struct fs;
struct keeper;
struct problem;
struct store;

/*
 * Theory of operation
 * -------------------
 * Whatever a session tells the event log, and a few things more, makes it dirty (session/keeping.h). Those that are dirty are
 * written about once a second: their records are made in the loop, at rest (keep.h), and sealed and written by a thread of
 * libuv's pool, one job at a time, so that the loop never waits for a disk, and a disk that hangs blocks one thread. What is
 * saved of them goes to the vault first, at once; until it is there a record does without it, and is written again then, without
 * waiting for its time. A checkpoint is shown as whole when a record on the disk names it. Long outputs
 * and long code have files of their own, which are written once, before the first record that names them: so what the loop does for a
 * session does not grow with what it has run. Code is read again at the start, and outputs when somebody wants them.
 *
 * So what somebody has read of a run that has ended is there after a power cut, if that comes a second later, or what the disk
 * takes. So that a full disk has room for what is said of that, there is a reserve (reserve.h). What could not be written, stored by the vault or removed is told once, in the log, the session's `error` and the root's, and
 * tried again every few seconds, until the end: then each is tried once. A record that names an output or code can't be written when
 * that can't; then one is that has neither: the output is lost to who reads it, and the code not to be found.
 *
 * At the end sessions are put to sleep, as by `sleep`, in the moment between two runs. A run that goes on then is interrupted
 * after a while, and at last killed. Only when all is written the mount goes on ending.
 */

/* Before the daemon is confined. @fs has its `vm`; @st is taken over if all goes well. Return: 0, or -errno with @why. */
int keeper_open(struct fs *fs, struct store *st, struct keeper **ret_k, struct problem *why);

/* Finds the sessions, and from now on keeps them. When the daemon is confined. */
void keeper_load(struct keeper *k);

/* The end: @done is called from the loop when all is asleep and written, or as far as that could be. @at_once: nothing more can
 * be saved. Called again, by somebody who can't wait: runs are not waited for any more. */
void keeper_end(struct keeper *k, bool at_once, void (*done)(void *data), void *data);

/* From then on: is all that sessions had at the end on the disk, and no session that was removed? */
bool keeper_kept_all(const struct keeper *k);

/* Behind the loop's last turn. @k may be NULL. Return: false if a thread waits for a disk still, and uses it. */
bool keeper_close(struct keeper *k);

/* ---- one daemon after another ---- */

/* Is nothing under way that reads or writes there: a job, what the vault stores, a removal that is due, an output that is brought
 * back? What is dirty can wait, for the heir writes all sessions once more. */
bool keeper_may_yield(const struct keeper *k);
/* Descriptor of the state directory's lock. */
int keeper_lock(const struct keeper *k);
/* In an heir, before it has anything to keep: nothing is written until it goes on. */
void keeper_wait(struct keeper *k);
/* With the lock of the daemon before, which is the keeper's from now on. Return: 0, -EBADMSG: it is of another directory. */
int keeper_inherit(struct keeper *k, int lock);
/* The heir is the daemon: all sessions are written once more, in their turn. */
void keeper_go(struct keeper *k);

#endif
