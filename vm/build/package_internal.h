/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the package installer. */
#ifndef XSBX_VM_BUILD_PACKAGE_INTERNAL_H
#define XSBX_VM_BUILD_PACKAGE_INTERNAL_H

#include "package_job.h"
#include "vm/base/util.h"

#define PACKAGE_MIRROR	  "/run/xsbx/mirror" /* path of the offline mirror in sandboxes */
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

/* Picks the next job, in turns between users. Return: NULL if nothing is queued. */
struct package_job *package_job_choose(struct package_jobs *in);

/* Handles a line of output that may be part of the answer to @ask. */
void package_ask_line(struct package_ask *ask, const char *line);

/* Answers and frees all asks of the job; @why: NULL on success. */
void package_ask_answer(struct package_job *job, const struct problem *why);

/* ---- package_watch.c: closes an installing sandbox if it uses too much disk space ---- */

void package_jobs_watch_start(struct package_jobs *in);
void package_jobs_watch_stop(struct package_jobs *in);
/* Explains the result of layer_room(). */
void package_jobs_explain_room(struct package_jobs *in, int result, uint64_t bytes);
void package_jobs_watch_close(struct package_jobs *in); /* when struct vm ends */

#endif
