/* SPDX-License-Identifier: Apache-2.0 */
/* Packages requested without a version: `error` suggests the newest ones. */
#ifndef XSBX_FS_SESSION_OFFER_H
#define XSBX_FS_SESSION_OFFER_H

struct session;
struct settings;
struct problem;

/**
 * offer_look_up() - Look up missing package versions
 * @s: Session
 * @with: Settings that were refused
 * @why: Reason of the refusal; a fix is added that announces the answer
 *
 * Does nothing if they were refused for another reason. Does not block: the answer is added to the session's
 * `error` when it arrives, unless that has changed.
 */
void offer_look_up(struct session *s, const struct settings *with, struct problem *why);

#endif
