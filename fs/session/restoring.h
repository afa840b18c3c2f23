/* SPDX-License-Identifier: Apache-2.0 */
/* What `restore` goes back to is read before anything is given up for it. */
#ifndef XSBX_FS_SESSION_RESTORING_H
#define XSBX_FS_SESSION_RESTORING_H

#include <stdint.h>
#include <sys/queue.h>

#include "vm/base/wait.h"

struct saved;
struct session;

/*
 * Theory of operation
 * -------------------
 * A checkpoint that is on the disk may be damaged there, which nobody sees before it is read. A session that was ended for it, or
 * whose sleep was given away, would have lost that for nothing. So it is read as a whole, as it is to wake up with it, while the
 * session goes on; only then is there a `restore`. What is in memory needs no look. The write to `ctl` waits for that, which keeps
 * others from writing there, for the kernel has that file locked: so no longer than RESTORING_MS. Reading goes on behind that, for
 * whoever tries it again.
 *
 * Embedded, zeroed, with `done` set. Who is told of a failure finds it in the session's `error`.
 */
struct restoring {
	LIST_ENTRY(restoring) link; /* while it is read: those of the session */
	struct session *s;	    /* reference */
	struct saved *saved;	    /* reference */
	char name[65];		    /* of the checkpoint */
	uint64_t until;		    /* uv_now() */
	struct wait wait;
	void (*done)(struct restoring *r, int err); /* may free @r */
};

#define RESTORING_MS 20000u

LIST_HEAD(restoring_list, restoring);

/* Return: whether the checkpoint of that name has to be read: `done` is called then, from the loop, with 0 or -errno. There may be
 * none of that name. */
bool restoring_begin(struct restoring *r, struct session *s, const char *name);

/* It is not waited for any more, and `done` not called; nothing, if it is not. */
void restoring_cancel(struct restoring *r);

/* Those whose time is up end with -EIO. Return: when the next one's is, or UINT64_MAX. */
uint64_t restoring_tick(struct session *s, uint64_t now);

/* All of the session's are over, with @err. */
void restoring_flush(struct session *s, int err);

#endif
