/* SPDX-License-Identifier: Apache-2.0 */
/* `commit` and `discard`: the changes of a session are applied to the host, or discarded. */
#ifndef XSBX_FS_SESSION_COMMIT_H
#define XSBX_FS_SESSION_COMMIT_H

struct session;

/* Verbs of `ctl`. Return: 0; -EINVAL if files/ does not come from the host; -EBUSY while there are
 * runs, or an earlier commit is under way; -errno. The session's `error` says why. */
int commit_begin(struct session *s);
int commit_discard(struct session *s);

#endif
