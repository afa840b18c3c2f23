/* SPDX-License-Identifier: Apache-2.0 */
/* What this daemon leaves if it dies: its estate, and when something is written to it. */
#ifndef XSBX_FS_SURVIVAL_H
#define XSBX_FS_SURVIVAL_H

#include <stdbool.h>
#include <uv.h>

#include "vm/base/fdbag.h"
#include "vm/base/turn.h"

struct devfuse;
struct estate;
struct fs;
struct spawner;
struct succession;

/*
 * With `survive = yes` a daemon may be killed at any instruction. All that is to be known of it is
 * in records in an estate (vm/base/estate.h), which the spawner has as well, and the descriptors
 * that these speak of are held (vm/base/lent.h). The records are true at the end of each turn of
 * the loop, and nothing is said to anybody before they are (vm/base/turn.h). If the daemon dies
 * without a goodbye, the spawner starts another one, which goes on with the estate: fs/succession.h
 * tells of one that is asked for.
 *
 * What can't be had, or is lost, is said in the log; the daemon goes on without, and its death ends
 * the mount. If it was but the holder that ended, there is another one after a while
 * (vm/base/lent.h), and then it survives again.
 *
 * With XSBX_SHADOW, for tests, all is written down anew behind each commit, and compared with what
 * is there.
 *
 * Embedded by its owner, zeroed, who sets what is above the line.
 */
struct survival {
	uv_loop_t *loop;
	struct fs *fs;
	struct devfuse *fuse;
	struct spawner *spawner;
	const struct succession *succession;
	/* ---- */
	struct estate *estate; /* NULL: there is none */
	struct turn turn;
	struct fdbag fds; /* by lent_put() */
	bool described;	  /* the process has its record */
	bool knows_host;  /* ... with what is known of the host */
	bool deaf;	  /* the spawner knows that the holder does not hear */
	bool lends_again; /* ... and has another one, which has nothing yet */
	bool resumed;
};

/* Makes an estate, and tells the spawner, if both can. */
void survival_new(struct survival *sv);

/* Instead, in an heir: goes on with a copy of the estate of the one before, which is taken.
 * bequest_read() is to follow survival_start(). */
void survival_resume(struct survival *sv, struct estate *e);

/* Likewise, and starts it, in one that takes the mount over from a daemon that serves, and has been
 * given what is lent: it has a holder of its own then, and what is copied counts with
 * spawner_ready(). Return: false: it could not, and @e is the caller's still. */
bool survival_take_over(struct survival *sv, struct estate *e);

/* Or, when all is read, in one that leaves nothing: nothing is written to the copy, but what
 * sandboxes have on its sheets stays; it is taken. */
void survival_forgo(struct survival *sv, struct estate *e);

/* From now on it is written to: behind mount_init(), vm_new() and devfuse_attach(), before anything
 * is served. */
void survival_start(struct survival *sv);

/* In the daemon that has mounted: all is written for the first time, and from now on another one
 * goes on if it dies. */
void survival_begin(struct survival *sv);

/* In one that was resumed, when all is loaded: before that nothing is noted of what changes, for it
 * is there already. */
void survival_go(struct survival *sv);

/* What succession_put_process() puts has changed. */
void survival_describe(struct survival *sv);

/* For an heir that takes the mount over: all there is, written down; its own estate, or without one
 * another that is made for that. To be ended by survival_left(), before anything else is done.
 * Return: 0; -EAGAIN: something is to be said before; -EOPNOTSUPP, -errno. */
int survival_leave(struct survival *sv, struct estate **ret_e);
void survival_left(const struct survival *sv, struct estate *e);

/* The mount ends: another daemon would have nothing to go on with. What is queued is said. */
void survival_close(struct survival *sv);

/* Frees it, behind devfuse_free(). */
void survival_free(struct survival *sv);

#endif
