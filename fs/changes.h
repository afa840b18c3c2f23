/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions on a copy of a directory of the host: files.changes, `commit` and `discard`. */
#ifndef XSBX_CHANGES_H
#define XSBX_CHANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "../vm/vm.h"

struct handle_ops;
struct session;

/*
 * Embedded in a session.
 * - `work` is what the last sandbox has changed, also when that is gone; NULL if there was none yet.
 * - While `committing` no run begins, and no list is made.
 */
struct changes {
	struct vm_work *work;
	bool committing;
};

/* The session has a sandbox that is ready. */
void changes_begin(struct session *s);

/* Forgets what was changed. */
void changes_drop(struct session *s);

/* Verbs of `ctl`. Return: 0; -EINVAL where files/ does not come from the host; -EBUSY while there are
 * runs, or an earlier commit is on its way; -errno. The session's `error` says why. */
int changes_commit(struct session *s);
int changes_discard(struct session *s);

#define CHANGES_UNKNOWN \
	(32u << 20) /* more than the list can be: its size while it is open, see stream.h */

extern const struct handle_ops changes_ops;

#endif
