/* SPDX-License-Identifier: Apache-2.0 */
/* What was changed in this turn, by what it is: see fs/request/touched.h. */
#ifndef XSBX_FS_SESSION_TOUCH_H
#define XSBX_FS_SESSION_TOUCH_H

#include "fs/request/touched.h"

struct job;
struct run;
struct scratch_file;
struct session;

/*
 * Theory of operation
 * -------------------
 * Marks are conservative: a request touches what its node is of (fs/fuse/resolve.c); what a sandbox reports, its session
 * (binding.c). So only who changes something of another object has to say so; where much is done, as with runs, all say so themselves
 * (`notes` of struct handle_ops). With a session its runs and jobs that have
 * not ended are written, and its sandbox. One mark too many costs a microsecond, one too few a lie after the daemon's death: the shadow
 * compare of fs/handover/ finds these.
 */
void touch_session(struct session *s);
/* Likewise, but not its sandbox, which says itself when it changes. */
void touch_head(struct session *s);
/* Only its sandbox, and what was asked of that. */
void touch_sandbox(struct session *s);
/* ... and what of it changes seldom: its settings, what is saved of it, refusals. */
void touch_rest(struct session *s);
/* Also one that has ended or was removed. */
void touch_run(struct run *r);
void touch_job(struct job *j);
void touch_scratch(struct session *s, struct scratch_file *file);
/* They are about to be freed, and so are their records. */
void touch_session_gone(struct session *s);
void touch_run_gone(struct run *r);
void touch_job_gone(struct job *j);
void touch_scratch_gone(struct session *s, struct scratch_file *file);

#endif
