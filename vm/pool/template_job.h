/* SPDX-License-Identifier: Apache-2.0 */
/* What templates have done in worker threads, and what their files share. */
#ifndef XSBX_VM_POOL_TEMPLATE_JOB_H
#define XSBX_VM_POOL_TEMPLATE_JOB_H

#include <uv.h>

#include "template.h"

enum job_kind { JOB_LOAD, JOB_STORE, JOB_REMOVE };

/* Independent of what happens to the template meanwhile: it has its own key and descriptors. */
struct template_job {
	uv_work_t work;
	struct template *template; /* holds a reference */
	enum job_kind kind;
	char key[DIGEST_HEX];
	char *dir;
	uint64_t limit;
	struct snapshot snapshot;
	int result;
};

/**
 * template_job_start() - Have something done by a worker thread
 * @t: Template
 * @kind: What
 * @s: For JOB_STORE: what; duplicated
 *
 * template_job_done() follows. Return: 0 or -errno.
 */
int template_job_start(struct template *t, enum job_kind kind, const struct snapshot *s);

/* In template.c: a job is over; whatever is left in its snapshot is closed afterwards. */
void template_job_done(struct template_job *job);

/* In template.c: notes that a snapshot could not be made. */
void template_build_failed(struct template *t, const char *why);

#endif
