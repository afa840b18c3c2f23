/* SPDX-License-Identifier: Apache-2.0 */
/* Installing packages that sandboxes ask for, into layers. */
#ifndef XSBX_VM_BUILD_PACKAGE_JOB_H
#define XSBX_VM_BUILD_PACKAGE_JOB_H

#include <stdbool.h>
#include <sys/queue.h>

#include "vm/image/layer.h"
#include "vm/backend/backend.h"
#include "vm/base/config.h"
#include "vm/base/context.h"
#include "vm/base/problem.h"
#include "vm/base/spec.h"
#include "vm/base/wait.h"
#include "offer.h"
#include "store_client.h"
#include "vm/spawn/program.h"
#include "vm/base/lines.h"

#define PACKAGE_JOB_MS 1800000u /* longest wait of a session: others may have their turn before */
#define PACKAGE_TURNS  64u	/* users that are known to have had one */

/* What is being done for a layer. The order is that of the work. */
enum package_step {
	PACKAGE_QUEUED,
	PACKAGE_FETCH,	 /* the store is asked for it */
	PACKAGE_BEGIN,	 /* its directory is made and locked */
	PACKAGE_PREPARE, /* the host is asked for registries, and for the image's programs */
	PACKAGE_RUN,	 /* the installer works, in a sandbox */
	PACKAGE_PACK,	 /* a file system is made of what it left */
	PACKAGE_PUBLISH, /* the layer gets its name */
	PACKAGE_ABANDON, /* what there is of it is removed */
	PACKAGE_FAILED,
};

/* Somebody wants to know what there is. */
struct package_ask {
	struct package_ask *next; /* wants to know the same */
	uid_t owner;
	vm_offer_fn fn;
	void *data;
	char words[4096]; /* of the first: what was found so far, */
	bool cut;	  /* ... which is not all of it */
};

/* A layer that was missing when somebody asked. Forgotten when it is there. */
struct package_job {
	TAILQ_ENTRY(package_job) link;
	enum package_step step;
	char key[DIGEST_HEX];
	struct layer_need need;	 /* its strings are owned */
	char line[160];		 /* the last one that was said */
	struct package_ask *ask; /* only what would be installed is asked for; owned */
	bool prepared;		 /* a template wants it that is to be ready before it is used */
	uint64_t started_at, ended_at;
	struct problem problem; /* how it failed */
};

/* Looks at the directory in which something is installed; see package_watch.c. */
struct package_watch {
	uv_timer_t timer; /* `there` if it was made; runs until the next look */
	uv_work_t work;
	bool there, on, looking;
	/* Of the look that goes on, or was the last: */
	char key[DIGEST_HEX];
	const char *dir;
	uint64_t limit;
	int result;
	uint64_t bytes;
};

struct package_jobs;

/* Set once, by whoever makes the jobs. */
struct package_ops {
	/* Starts the sandbox of the current step; package_jobs_ran() is the answer. Return: 0 or -errno. */
	int (*run)(void *data);
	/* Ends it. */
	void (*stop)(void *data);
	/* Room is needed: lets go of layers that nobody uses. */
	void (*let_go)(void *data);
};

/*
 * - At most one install is `current`; `prepare`, `lines` and `work` are its own.
 * - `lock` is open while there is a directory of it.
 * - `waits` are for jobs.
 */
struct package_jobs {
	struct context *ctx; /* NULL: it was never begun */
	struct images *images;
	struct store_client *store;
	struct layers layers;
	const struct package_ops *ops;
	void *data;
	struct vm_packages cfg; /* its strings are owned */
	char *script;		/* what runs in the sandbox; NULL: it can't be read */
	char *source; /* registries and mirror, as far as they are part of a layer's key */
	TAILQ_HEAD(package_job_list, package_job) installs;
	struct package_job *current;
	struct wait_list waits;
	uid_t served[PACKAGE_TURNS]; /* whose turns there were: each once, the last one first */
	unsigned nserved;

	int lock;
	bool fetched; /* it came from the store */
	bool damaged; /* the copy in the store is unusable */
	uv_work_t work;
	int result; /* of the work */
	bool full;  /* ... is that of layer_room() */
	uint64_t bytes;

	struct program prepare;
	struct lines lines;	    /* of `prepare`, and of what runs in sandboxes */
	struct package_watch watch; /* `on` only while a sandbox works */
	struct problem why;	    /* if it goes wrong */

	char index[512];  /* what `prepare` found: the registry, "" for the installer's default; */
	char hosts[1024]; /* what has to be reached, an allow list */
};

/* With ctx, images, store, ops and data set. Return: 0 or -ENOMEM. */
int package_jobs_init(struct package_jobs *in, const struct vm_packages *cfg);
void package_jobs_fini(struct package_jobs *in);

/* What the packages of @spec mean on this host, of which @ops is the backend; the strings of *@ret_need are @spec's. */
void package_jobs_need(const struct package_jobs *in, const struct backend_ops *ops,
		       const struct sandbox_spec *spec, struct layer_need *ret_need);

/**
 * package_jobs_layer() - The layer of a sandbox's packages, if it is there
 * @in: Jobs
 * @need: From package_jobs_need()
 *
 * Return: to be given back by layer_put(), or NULL.
 */
struct layer *package_jobs_layer(struct package_jobs *in, const struct layer_need *need);

/**
 * package_jobs_ask() - Have a layer made that is missing
 * @in: Jobs
 * @need: From package_jobs_need()
 * @w: Waits for it, for its owner. Or NULL: it is for a template that is to be ready before it is used; then
 *     what has failed not long ago is not tried again
 * @ret_problem: Why it can't be made
 *
 * Return: 0 if it is being made or waits for its turn, or -errno.
 */
int package_jobs_ask(struct package_jobs *in, const struct layer_need *need, struct wait *w,
		     struct problem *ret_problem);

/* The sandbox of the current step is gone. */
void package_jobs_ran(struct package_jobs *in, bool well);

/* Somebody has ceased to wait: forgets what has not begun and nobody wants. */
void package_jobs_unwait(struct package_jobs *in, struct wait *w);

/* What @w waits for, in words; and that it did not come in PACKAGE_JOB_MS. */
void package_jobs_explain(const struct wait *w, struct problem *p);
void package_jobs_explain_late(struct problem *p);

/* See vm_offer(); @ops: of the backend that is meant. */
int package_jobs_versions(struct package_jobs *in, const struct backend_ops *ops,
			  const struct vm_offer_for *what, const char *packages, vm_offer_fn fn,
			  void *data);

/* At the end: kills what runs. Sandboxes end by themselves. */
void package_jobs_cut(struct package_jobs *in);

#endif
