/* SPDX-License-Identifier: Apache-2.0 */
/* Builds missing images, with the same program as users do. */
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
	1800000u /* longest wait of a session: a base takes half a minute on a fast connection */

enum image_job_state {
	IMAGE_JOB_QUEUED, /* another one is being built */
	IMAGE_JOB_BUILDING,
	IMAGE_JOB_FAILED, /* not retried for a while, unless a session waits for it */
	IMAGE_JOB_NSTATES,
};

/* An image that was missing when it was requested. Removed when it exists. */
struct image_job {
	TAILQ_ENTRY(image_job) link;
	enum image_job_state state;
	bool unpack;		       /* the unpacked directory is needed */
	char step[160];		       /* the last line that the program printed */
	uint64_t started_at, ended_at; /* ms of the loop's clock */
	char problem[700];	       /* why it failed */
	char name[];
};

/*
 * - At most one job is BUILDING; `builder` and `lines` belong to its program.
 * - `waits` are for jobs.
 */
struct image_jobs {
	struct context *ctx;
	struct images *images;
	bool machines; /* sandboxes may be virtual machines, which need images */
	char *program; /* NULL: there is none */
	TAILQ_HEAD(image_job_list, image_job) jobs;
	struct image_job *current;
	struct program builder;
	struct lines lines;
	struct wait_list waits;
};

/* ctx, images and machines have to be set. @program: path, or "none" or NULL for none. Return: 0 or -ENOMEM. */
int image_jobs_init(struct image_jobs *ij, const char *program);
void image_jobs_fini(struct image_jobs *ij);

/**
 * image_jobs_lacks() - Is a sandbox's image missing, and can it be built?
 * @ij: Jobs
 * @ops: The sandbox's backend
 * @image_view: The sandbox uses the image's files, which have to be unpacked
 * @image: Name
 * @eager: Retry even if it has failed recently
 *
 * If so, builds it in the background. Return: false if none is needed, it exists, or it can't be built.
 */
bool image_jobs_lacks(struct image_jobs *ij, const struct backend_ops *ops, bool image_view,
		      const char *image, bool eager);

/**
 * image_jobs_wait() - Wait for an image for which image_jobs_lacks() has returned true
 * @ij: Jobs
 * @image: Name
 * @unpack: The unpacked directory is needed
 * @w: Woken when it exists, when it failed, and at each step
 */
void image_jobs_wait(struct image_jobs *ij, const char *image, bool unpack, struct wait *w);

/* Describes what @w waits for; and that it was not built within IMAGE_JOB_MS. */
void image_jobs_explain(const struct wait *w, struct problem *p);
void image_jobs_explain_late(const struct wait *w, struct problem *p);

/* The job of a missing image; NULL if it was never requested. */
const struct image_job *image_jobs_look(const struct image_jobs *ij, const char *image);
const char *image_job_state_str(enum image_job_state state);

/* Shutdown: kills the program. */
void image_jobs_cut(struct image_jobs *ij);

#endif
