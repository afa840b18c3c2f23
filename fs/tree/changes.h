/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions on a copy of a directory of the host: files.changes, `commit` and `discard`. */
#ifndef XSBX_FS_TREE_CHANGES_H
#define XSBX_FS_TREE_CHANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "vm/base/buf.h"
#include "vm/vm.h"

struct handle_ops;
struct session;

/*
 * Embedded in a session.
 * - `work` is what the last sandbox has changed, also when that is gone; NULL if there was none yet.
 * - `reviewed` is the last list that somebody has read, with what it stands for: what may be committed. Who has
 *   begun to read has to read again after each commit, successful or not; `is_reviewed` is for ever.
 * - `asked` and `is_asked` are these two as they were when a commit was asked for, until it begins.
 * - While `committing` no run begins, no list is made, and files/ can't be changed.
 */
struct changes {
	struct workdir *work;
	struct buf reviewed;
	bool is_reviewed;
	struct buf asked;
	bool is_asked;
	bool committing;
	unsigned epoch; /* one more for each `work` */
};

/* The session has a sandbox that is ready. */
void changes_begin(struct session *s);

/* Nothing runs in the sandbox, as a commit has asked; or it could not be stopped, with -errno. */
void changes_still(struct session *s, int err);

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
