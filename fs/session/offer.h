/* SPDX-License-Identifier: Apache-2.0 */
/* Packages that were asked for without a version: the newest ones are offered in `error`. */
#ifndef XSBX_FS_SESSION_OFFER_H
#define XSBX_FS_SESSION_OFFER_H

struct session;
struct settings;
struct problem;

/**
 * offer_look_up() - Have versions looked up that are missing
 * @s: Session
 * @with: Settings that were refused
 * @why: ... with these words; a fix is added to them that says what follows
 *
 * Does nothing if that is not what is wrong with them. Nobody waits: the answer becomes part of the session's
 * `error` when it is there, if that still says the same.
 */
void offer_look_up(struct session *s, const struct settings *with, struct problem *why);

#endif
