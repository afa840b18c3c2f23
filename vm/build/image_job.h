/* SPDX-License-Identifier: Apache-2.0 */
/* Building images that are missing, by the program that users build them with. */
#ifndef XSBX_VM_BUILD_IMAGE_JOB_H
#define XSBX_VM_BUILD_IMAGE_JOB_H

#include <stdbool.h>
#include <sys/queue.h>

#include "vm/backend/backend.h"
#include "vm/base/context.h"
#include "vm/base/problem.h"
#include "vm/base/wait.h"
#include "vm/spawn/program.h"
#include "vm/base/lines.h"

#define IMAGE_JOB_MS \
	1800000u /* longest wait of a session: a base is half a minute on a fast line */

enum image_job_state {
	IMAGE_JOB_QUEUED, /* another one is being built */
	IMAGE_JOB_BUILDING,
	IMAGE_JOB_FAILED, /* not tried again before `retry_at` unless somebody waits for it */
	IMAGE_JOB_NSTATES,
};

/* An image that was missing when somebody asked. Forgotten when it is there. */
struct image_job {
	TAILQ_ENTRY(image_job) link;
	enum image_job_state state;
	bool unpack;		       /* it is to be there as a directory */
	char step[160];		       /* the last line that the program printed */
	uint64_t started_at, ended_at; /* ms of the loop's clock */
	char problem[700];	       /* how it failed */
	char name[];
};

/*
 * - At most one job is BUILDING, and `builder`, `lines` are its program's.
 * - `waits` are for jobs.
 */
struct image_jobs {
	struct context *ctx;
	struct images *images;
	bool machines; /* sandboxes may be machines, and need images */
	char *program; /* NULL: there is none */
	TAILQ_HEAD(image_job_list, image_job) jobs;
	struct image_job *current;
	struct program builder;
	struct lines lines;
	struct wait_list waits;
};

/* With ctx, images and machines set. @program: path, or "none" or NULL if there is none. Return: 0 or -ENOMEM. */
int image_jobs_init(struct image_jobs *ij, const char *program);
void image_jobs_fini(struct image_jobs *ij);

/**
 * image_jobs_lacks() - Does a sandbox lack its image, and can that be built?
 * @ij: Jobs
 * @ops: What it runs in
 * @image_view: Does it see the image's files? Then these have to be there
 * @image: Name
 * @eager: Try also what has failed not long ago
 *
 * Has it built in the background if so. Return: false if it needs none, if it is there, or can't be had.
 */
bool image_jobs_lacks(struct image_jobs *ij, const struct backend_ops *ops, bool image_view,
		      const char *image, bool eager);

/**
 * image_jobs_wait() - Wait for an image that image_jobs_lacks() has said is being made
 * @ij: Jobs
 * @image: Name
 * @unpack: It is to be there as a directory
 * @w: Told when it is, or can't be, or of each step
 */
void image_jobs_wait(struct image_jobs *ij, const char *image, bool unpack, struct wait *w);

/* What @w waits for, in words; and that it did not come in IMAGE_JOB_MS. */
void image_jobs_explain(const struct wait *w, struct problem *p);
void image_jobs_explain_late(const struct wait *w, struct problem *p);

/* What is known of an image that is missing; NULL if it was never asked for. */
const struct image_job *image_jobs_look(const struct image_jobs *ij, const char *image);
const char *image_job_state_str(enum image_job_state state);

/* At the end: kills the program. */
void image_jobs_cut(struct image_jobs *ij);

#endif
