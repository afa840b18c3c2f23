/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes of a daemon before this one, and the sessions that have them. */
#ifndef XSBX_FS_SESSION_INHERIT_H
#define XSBX_FS_SESSION_INHERIT_H

#include "vm/base/record.h"

struct fdbag;
struct session;

/* The session has had this sandbox. If that is not there any more, it will be told when it goes on.
 * Return: 0, -EBADMSG, -ENOMEM. */
int inherit_sandbox(struct session *s, struct record_reader fields, struct fdbag *fds);

/* It goes on: with its sandbox; without, if that did not last; or it asks for one again. */
void inherit_go(struct session *s);

#endif
