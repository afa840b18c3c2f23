/* SPDX-License-Identifier: Apache-2.0 */
/* What this daemon leaves if it dies: its estate, and when something is written to it. */
#ifndef XSBX_FS_SURVIVAL_H
#define XSBX_FS_SURVIVAL_H

#include <stdbool.h>
#include <uv.h>

#include "vm/base/fdbag.h"
#include "vm/base/turn.h"
#include "vm/spawn/deaths.h"

struct devfuse;
struct estate;
struct fs;
struct spawner;
struct succession;

enum survival_stage {
	SURVIVAL_NONE,	  /* there is no estate, or no more */
	SURVIVAL_MADE,	  /* there is one, in which nothing is written yet */
	SURVIVAL_FOUND,	  /* ... that is a copy of what the daemon before has left */
	SURVIVAL_FILLING, /* of MADE: turns are written to it */
	SURVIVAL_LOADING, /* of FOUND: likewise, but what is loaded is there already */
	SURVIVAL_BEGUN,	  /* all is there */
};

enum survival_holder {
	HOLDER_HAS_ALL, /* or has ended, and nobody has noticed yet */
	HOLDER_GONE,	/* the spawner knows it; another one is asked for later */
	HOLDER_ASKED,	/* ... and was */
	HOLDER_COMES,	/* it is there, and gets all behind the next commit */
};

/*
 * With `survive = yes` a daemon may be killed at any instruction. All that is to be known of it is
 * in records in an estate (vm/base/estate.h), which the spawner has as well, and the descriptors
 * that these speak of are held (vm/base/lent.h). The records are true at the end of each turn of
 * the loop, and nothing is said to anybody before they are (vm/base/turn.h). If the daemon dies
 * without a goodbye, the spawner starts another one, which goes on with the estate: fs/succession.h
 * tells of one that is asked for.
 *
 * What can't be had, or is lost, is said in the log; the daemon goes on without, and its death ends
 * the mount.
 *
 * If it is but the holder that ends, or does not hear any more, nothing is lost, but the daemon's
 * death would be the end. So it announces its estate once more, as at the mount, and gets another
 * holder, which it lends all that is open (lent_again()), behind a commit; then it survives again.
 * That is asked for after a while if holders die in a row, and not for ever, as deaths.h says of
 * daemons. A descriptor can't be sent while more of one user's are on their way than he may have
 * open: that passes, and is nobody's death. It is tried again, as often as it takes.
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
	enum survival_stage stage;
	struct estate *estate; /* NULL: there is none */
	struct turn turn;
	struct fdbag fds; /* by lent_put() */
	bool described;	  /* the process has its record */
	bool knows_host;  /* ... with what is known of the host */
	enum survival_holder holder;
	uv_timer_t again;     /* of HOLDER_GONE: then another one is asked for */
	int next;	      /* of HOLDER_COMES: its socket; or -1 */
	struct deaths deaths; /* of holders */
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
 * sandboxes have on its sheets stays as long as they need it; it is taken. */
void survival_forgo(struct survival *sv, struct estate *e);

/* From now on it is written to: behind mount_init(), vm_new() and devfuse_attach(), before anything
 * is served, or loaded: for what is loaded is there already, and is not noted. */
void survival_start(struct survival *sv);

/* All is there: a daemon that has mounted has served nothing yet, and another one goes on if it dies
 * from now on; an heir has loaded, and what changes is noted from now on. What an heir leaves counts
 * when it is the daemon. */
void survival_begin(struct survival *sv);

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
