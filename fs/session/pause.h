/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that stand still: the verbs `pause` and `resume`, and while changes are taken over. */
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
 * - Unless `state` is PAUSE_NONE no run begins.
 * - `asked` is the user's wish: `resume` ends it. `still` is a commit's, and ends with it.
 */
struct pause {
	enum pause_state state;
	bool asked;
	void (*still)(struct session *s, int err);
};

/* Verbs of `ctl`. Return: 0; -EBUSY while there are runs or it is starting; -EINVAL to resume what was not
 * paused; -errno. The session's `error` says why. Whoever ends it has runs begin again. */
int pause_begin(struct session *s);
int pause_end(struct session *s);

/* For a commit: @still is called when nothing runs, or can't be stopped, with -errno; now, if that is known. Return:
 * 0 or -errno. */
int pause_until_still(struct session *s, void (*still)(struct session *s, int err));
void pause_still_over(struct session *s);

/* The agent's answer. Runs may begin again, and readers go on. */
void pause_answered(struct session *s, int err);

/* The sandbox is gone, or all in it is started anew. */
void pause_void(struct session *s);

/* Return: -EBUSY if @rq would change something that is being taken over, or 0. */
int pause_may(const struct session *s, const struct vm_file *rq);

#endif
