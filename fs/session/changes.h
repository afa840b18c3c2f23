/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions on a copy of a directory of the host: what was changed there, and what of it was read. */
#ifndef XSBX_FS_SESSION_CHANGES_H
#define XSBX_FS_SESSION_CHANGES_H

#include <stdbool.h>

#include "vm/base/buf.h"
#include "vm/vm.h"

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

/* Forgets what was changed. */
void changes_drop(struct session *s);

/* Somebody reads the list @c of what was changed while changes.epoch was @epoch: that may be committed. Return: 0 or
 * -ENOMEM. */
int changes_remember(struct session *s, unsigned epoch, const struct vm_changes *c);

/* The line at @at of a list of @len bytes: @ret_len is its length, without its end. Return: where the next one begins. */
size_t changes_line(const char *text, size_t len, size_t at, size_t *ret_len);

/* Verbs of `ctl`, in commit.c: what was changed goes to the host, or is forgotten. Return: 0; -EINVAL where files/ does not
 * come from the host; -EBUSY while there are runs, or an earlier commit is on its way; -errno. The session's `error` says
 * why. */
int commit_begin(struct session *s);
int commit_discard(struct session *s);

#endif
