/* SPDX-License-Identifier: Apache-2.0 */
/* `commit` and `discard`: what a session has changed goes to the host, or is forgotten. */
#ifndef XSBX_FS_SESSION_COMMIT_H
#define XSBX_FS_SESSION_COMMIT_H

struct session;

/* Verbs of `ctl`. Return: 0; -EINVAL where files/ does not come from the host; -EBUSY while there are
 * runs, or an earlier commit is on its way; -errno. The session's `error` says why. */
int commit_begin(struct session *s);
int commit_discard(struct session *s);

#endif
