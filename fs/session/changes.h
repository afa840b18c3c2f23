/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions on a copy of a host directory: what was changed there, and what of it was reviewed. */
#ifndef XSBX_FS_SESSION_CHANGES_H
#define XSBX_FS_SESSION_CHANGES_H

#include <stdbool.h>

#include "vm/base/buf.h"
#include "vm/vm.h"

struct commit;
struct fdbag;
struct record_reader;
struct session;

/*
 * Embedded in a session.
 * - `work` has the changes of the last sandbox, even when that is gone; NULL if there was none yet.
 * - `reviewed` is the last list that was read, with its checksums: only this may be committed. Once
 *   a list was read, another one has to be read after each commit, successful or not; `is_reviewed`
 *   is never reset.
 * - `asked` and `is_asked` are copies of these two from when a commit was requested, until it
 *   starts: then `commit` has them.
 * - While `committing` no run starts, no list is made, and files/ can't be changed.
 */
struct changes {
	struct workdir *work;
	struct buf reviewed;
	bool is_reviewed;
	struct buf asked;
	bool is_asked;
	bool committing;
	struct commit *commit; /* its own; or NULL */
	unsigned epoch;	       /* incremented for each `work` */
};

/* The session's sandbox is ready. */
void changes_begin(struct session *s);

/* Discards the changes. */
void changes_drop(struct session *s);

/* The list @c of changes, made when changes.epoch was @epoch, was read: it may be committed. Return: 0 or
 * -ENOMEM. */
int changes_remember(struct session *s, unsigned epoch, const struct vm_changes *c);

/* The line at @at of a list of @len bytes; @ret_len is its length without the newline. Return:
 * start of the next one. */
size_t changes_line(const char *text, size_t len, size_t at, size_t *ret_len);

/* Verbs of `ctl`, in commit.c: what was changed goes to the host, or is forgotten. Return: 0;
 * -EINVAL where files/ does not come from the host; -EBUSY while there are runs, or an earlier
 * commit is on its way; -errno. The session's `error` says why. */
int commit_begin(struct session *s);
int commit_discard(struct session *s);

/* Of a commit that was requested: what may be made. */
const struct buf *commit_asked(const struct session *s, bool *ret_is_asked);

/* For the next daemon: if changes are being applied, appends the fields of a record by which it can
 * go on with that. Return: whether they are. */
bool commit_put(const struct session *s, struct buf *out, struct fdbag *fds);
/* Goes on with such a one. Return: 0, -EBADMSG, -errno. */
int commit_take(struct session *s, const struct record_reader *fields, struct fdbag *fds);
/* The session goes on, and has perhaps requested a commit: what nobody has begun to apply is begun
 * once more. */
void commit_resume(struct session *s);

#endif
