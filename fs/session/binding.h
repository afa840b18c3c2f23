/* SPDX-License-Identifier: Apache-2.0 */
/* A session's hold on a sandbox: starting one, feeding it runs, hearing from it, letting it go. */
#ifndef XSBX_FS_SESSION_BINDING_H
#define XSBX_FS_SESSION_BINDING_H

#include "session.h"

/* Has those templates made ready that the configuration says, from the start of the mount. */
void lease_prepare(struct fs *fs);

/* Asks for a sandbox; the session is STARTING then, or FAILED. Return: 0 or -errno. */
int lease_start(struct session *s);

/* Gives the next queued run to the sandbox if it can take one; starts a sandbox if there is none. */
void lease_pump(struct session *s);

/**
 * lease_cut() - Let go of the sandbox, which ends in the background
 * @s: Session, with or without a sandbox; its state is the caller's to set afterwards
 * @why: For the runs that had not begun: they are refused with it. A run that was active has been
 *	 killed with the sandbox.
 */
void lease_cut(struct session *s, const struct problem *why);

/* Takes a queued run off the queue and ends it unstarted. */
void lease_refuse(struct session *s, struct run *r, const struct problem *why);

/* Brings s->info up to date, if there is a sandbox. */
void lease_info(struct session *s);

/* The depot's: less waits for the disk now. */
void lease_relieved(void *data);

/* The session is CLOSED from now on, and says @why to whoever has code for it. */
void lease_close(struct session *s, const struct problem *why);

void lease_set_state(struct session *s, enum session_state state);

#endif
