/* SPDX-License-Identifier: Apache-2.0 */
/* A session's hold on a sandbox: starting one, feeding it runs, hearing from it, letting it go. */
#ifndef XSBX_FS_SESSION_BINDING_H
#define XSBX_FS_SESSION_BINDING_H

#include "session.h"

/* Asks for a sandbox; the session is STARTING then, or FAILED. Return: 0 or -errno. */
int binding_start(struct session *s);

/* Gives the next queued run to the sandbox if it can take one; starts a sandbox if there is none. */
void binding_pump(struct session *s);

/**
 * binding_cut() - Let go of the sandbox, which ends in the background
 * @s: Session, with or without a sandbox; its state is the caller's to set afterwards
 * @why: For the runs that had not begun: they are refused with it. A run that was active has been
 *	 killed with the sandbox.
 */
void binding_cut(struct session *s, const struct problem *why);

/* Takes a queued run off the queue and ends it unstarted. */
void binding_refuse(struct session *s, struct run *r, const struct problem *why);

/* Brings s->info up to date, if there is a sandbox. */
void binding_info(struct session *s);

/* The depot's: less waits for the disk now. */
void binding_relieved(void *data);

#endif
