/* SPDX-License-Identifier: Apache-2.0 */
/* Building images that are missing, by the program that users build them with. */
#ifndef XSBX_VM_BUILD_IMAGE_JOB_H
#define XSBX_VM_BUILD_IMAGE_JOB_H

#include <stdbool.h>
#include <sys/queue.h>

#include "vm/pool/template.h"
#include "vm/spawn/program.h"
#include "vm/base/words.h"

struct backend_ops;
struct view;
struct vm;

enum imager_state {
	IMAGER_QUEUED, /* another one is being built */
	IMAGER_BUILDING,
	IMAGER_FAILED, /* not tried again before `retry_at` unless somebody waits for it */
	IMAGER_NSTATES,
};

/* An image that was missing when somebody asked. Forgotten when it is there. */
struct imager_job {
	TAILQ_ENTRY(imager_job) link;
	enum imager_state state;
	bool unpack;		       /* it is to be there as a directory */
	char step[160];		       /* the last line that the program printed */
	uint64_t started_at, ended_at; /* ms of the loop's clock */
	char problem[700];	       /* how it failed */
	char name[];
};

/*
 * - At most one job is BUILDING, and `builder`, `words` are its program's.
 * - `waiters` has the sandboxes in PHASE_IMAGE.
 */
struct imager {
	struct vm *vm;
	char *program; /* NULL: there is none */
	TAILQ_HEAD(imager_jobs, imager_job) jobs;
	struct imager_job *current;
	struct program builder;
	struct words words;
	struct sandbox_list waiters;
};

/* @program: path, or "none" or NULL if there is none. Return: 0 or -ENOMEM. */
int imager_init(struct imager *im, struct vm *vm, const char *program);
void imager_fini(struct imager *im);

/**
 * imager_missing() - Is an image missing that could be built?
 * @im: Imager
 * @image: Name
 * @eager: Try also what has failed not long ago
 *
 * Has it built in the background if so. Return: false if it is there, or can't be had.
 */
bool imager_missing(struct imager *im, const char *image, bool eager);

/* Does a sandbox like this lack its image, or, where it sees the image's files, these? Otherwise as
 * imager_missing(). */
bool imager_lacks(struct imager *im, const struct backend_ops *ops, const struct view *view,
		  const char *image, bool eager);

/* A sandbox waits for its image; sandbox_begin() or sandbox_fail() follows. Its deadline is set. */
void imager_wait(struct imager *im, struct sandbox *s);
void imager_leave(struct imager *im, struct sandbox *s);

/* What it waits for did not come in time. */
void imager_overdue(struct sandbox *s);

/* What a sandbox waits for, in words. */
void imager_explain(const struct sandbox *s, struct problem *p);

/* What is known of an image that is missing; NULL if it was never asked for. */
const struct imager_job *imager_look(const struct imager *im, const char *image);
const char *imager_state_str(enum imager_state state);

/* At the end: kills the program. */
void imager_cut(struct imager *im);

#endif
