/* SPDX-License-Identifier: Apache-2.0 */
/* The link between a session and its sandbox: starts one, sends it runs, receives its events, lets it go. */
#ifndef XSBX_FS_SESSION_BINDING_H
#define XSBX_FS_SESSION_BINDING_H

#include "session.h"

/* Requests a sandbox; the session is then STARTING, or FAILED. Return: 0 or -errno. */
int binding_start(struct session *s);

/* Its sandbox is READY, and what session_watch.wakes() has begun is done: everybody is let in. */
void binding_ready(struct session *s);

/* Sends the next queued run to the sandbox if it can take one; starts a sandbox if there is none. */
void binding_pump(struct session *s);

/**
 * binding_cut() - Detach the sandbox, which ends in the background
 * @s: Session, with or without a sandbox; the caller sets its state afterwards
 * @why: Problem with which queued runs are refused, if they have not been started. An active run
 *	 is killed with the sandbox.
 */
void binding_cut(struct session *s, const struct problem *why);

/* Does a run, or a request below files/, wait for its sandbox? */
bool binding_is_asked(const struct session *s);

/* What is being saved of the sandbox is not wanted any more, because of @why: whoever waits for it is told. */
void binding_unsave(struct session *s, const struct problem *why);

/* Removes a queued run from the queue and ends it unstarted. */
void binding_refuse(struct session *s, struct run *r, const struct problem *why);

/* More was written to what reads @f's input, or it is at its end: sends what the sandbox takes. */
void binding_feed(struct front *f);

/* Updates s->info, if there is a sandbox. */
void binding_info(struct session *s);

/* It had a sandbox, which is not there any more, and did not say so. */
void binding_lost(struct session *s, const struct problem *why);

/* What a sandbox reports; its first argument is a struct binding. */
extern const struct sandbox_events binding_events;

#endif
