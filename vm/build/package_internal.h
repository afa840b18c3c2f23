/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the installer share. */
#ifndef XSBX_VM_BUILD_PACKAGE_INTERNAL_H
#define XSBX_VM_BUILD_PACKAGE_INTERNAL_H

#include "package_job.h"
#include "vm/base/util.h"

#define PACKAGE_MIRROR	  "/run/xsbx/mirror" /* where the offline mirror is seen */
#define PACKAGE_MEMORY_MB 512u		     /* of its sandboxes */
#define PACKAGE_CPUS	  2u

/* ---- package_queue.c ---- */

/* Return: the install of a layer, or NULL. */
struct package_job *package_job_find(const struct package_jobs *in, const char *key);

/* A job for @need, at the end of the queue. Return: NULL if out of memory. */
struct package_job *package_job_new(struct package_jobs *in, const char *key,
				    const struct layer_need *need);
void package_job_forget(struct package_jobs *in, struct package_job *job);
void package_job_free(struct package_job *job);

/* Whose turn it is, and what is installed for him. Return: NULL if nothing is queued. */
struct package_job *package_job_choose(struct package_jobs *in);

/* What runs for an ask has said a line, which may be a part of the answer. */
void package_ask_line(struct package_ask *ask, const char *line);

/* Tells all who ask, and forgets them; @why: NULL if it went well. */
void package_ask_answer(struct package_job *job, const struct problem *why);

/* ---- package_watch.c: while a sandbox works, closes it if it takes too much room ---- */

void package_jobs_watch_start(struct package_jobs *in);
void package_jobs_watch_stop(struct package_jobs *in);
/* Says why it ends: what layer_room() has found. */
void package_jobs_explain_room(struct package_jobs *in, int result, uint64_t bytes);
void package_jobs_watch_close(struct package_jobs *in); /* at the end of the machinery */

#endif
