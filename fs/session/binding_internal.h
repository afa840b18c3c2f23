/* SPDX-License-Identifier: Apache-2.0 */
/* Private to binding.c and binding_end.c: how runs and what they wait for end. */
#ifndef XSBX_FS_SESSION_BINDING_INTERNAL_H
#define XSBX_FS_SESSION_BINDING_INTERNAL_H

#include "binding.h"

struct vm_result;

/*
 * Theory of operation
 * -------------------
 * binding.c starts things: a sandbox, the next run. What is below ends them, and starts nothing, so that it can be called
 * in the middle of a longer change: the session's state and the next step (binding_pump()) are its caller's.
 */

/* A run has ended, of a session or of a job. */
void binding_end_run(const struct session *s, struct run *r, const struct vm_result *result);
/* The same of the active run, which the session has no more then. */
void binding_finish(struct session *s, const struct vm_result *result);
/* Queued runs and jobs are not going to be started. */
void binding_refuse_all(struct session *s, const struct problem *why);

/* The session has no sandbox any more. @err: for those that still wait for one */
void binding_unbind(struct session *s, int err);
/* As binding_cut(), but queued runs wait for the next sandbox. */
void binding_part(struct session *s, const struct problem *why);
/* Logs that a sandbox ended without being asked to. */
void binding_log_end(const struct session *s, const struct problem *why);

/* It was not saved: whoever has asked for it at that moment is told. */
void binding_not_saved(struct session *s, const struct problem *why);
/* It could not be put to sleep when nobody used it. */
void binding_not_asleep(struct session *s, const struct problem *why);
/* It will not begin as a copy of anything. */
void binding_drop_copy(struct session *copy, const struct problem *why);

#endif
