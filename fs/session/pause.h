/* SPDX-License-Identifier: Apache-2.0 */
/* Paused sandboxes: the verbs `pause` and `resume`, and pausing during a commit. */
#ifndef XSBX_FS_SESSION_PAUSE_H
#define XSBX_FS_SESSION_PAUSE_H

#include <stdbool.h>

struct session;
struct vm_file;

enum pause_state {
	PAUSE_NONE,
	PAUSE_ASKED, /* the agent stops what runs */
	PAUSE_STILL, /* nothing runs */
};

/*
 * Embedded in a session.
 * - Unless `state` is PAUSE_NONE no run starts.
 * - `asked`: paused by the user, until `resume`. `still`: paused by a commit, until it ends.
 */
struct pause {
	enum pause_state state;
	bool asked;
	void (*still)(struct session *s, int err);
};

/* Verbs of `ctl`. Return: 0; -EBUSY while there are runs or it is starting; -EINVAL to resume when not
 * paused; -errno. The session's `error` says why. The caller of pause_end() restarts the queue. */
int pause_begin(struct session *s);
int pause_end(struct session *s);

/* For a commit: @still is called when all is stopped, or with -errno if that fails; at once if it
 * is known. Return: 0 or -errno. */
int pause_until_still(struct session *s, void (*still)(struct session *s, int err));
void pause_still_over(struct session *s);

/* The agent's answer. Runs may start again, and readers go on. */
void pause_answered(struct session *s, int err);

/* The sandbox is gone, or was reset. */
void pause_void(struct session *s);

/* Return: -EBUSY if @rq would change files during a commit, or 0. */
int pause_may(const struct session *s, const struct vm_file *rq);

#endif
