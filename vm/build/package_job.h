/* SPDX-License-Identifier: Apache-2.0 */
/* Installs the packages that sandboxes request into layers. */
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

#define PACKAGE_JOB_MS 1800000u /* longest wait of a session, including for others' turns */
#define PACKAGE_TURNS  64u	/* users whose turns are remembered */

/* The steps of making a layer, in order. */
enum package_step {
	PACKAGE_QUEUED,
	PACKAGE_FETCH,	 /* it is looked up in the store */
	PACKAGE_BEGIN,	 /* its directory is made and locked */
	PACKAGE_PREPARE, /* registries, and the image's programs, are determined on the host */
	PACKAGE_RUN,	 /* the installer runs in a sandbox */
	PACKAGE_PACK,	 /* a file system image is made from the result */
	PACKAGE_PUBLISH, /* the layer gets its final name */
	PACKAGE_ABANDON, /* unfinished files are removed */
	PACKAGE_FAILED,
};

/* A query for available versions. */
struct package_ask {
	struct package_ask *next; /* the same query by others */
	uid_t owner;
	vm_offer_fn fn;
	void *data;
	char words[4096]; /* in the first: the answer so far, */
	bool cut;	  /* ... which is truncated */
};

/* A layer that was missing when it was requested. Removed when it exists. */
struct package_job {
	TAILQ_ENTRY(package_job) link;
	enum package_step step;
	char key[DIGEST_HEX];
	struct layer_need need;	 /* owns its strings */
	char line[160];		 /* the last line of output */
	struct package_ask *ask; /* not an installation, but a query; owned */
	bool prepared;		 /* for a template that is prepared before it is used */
	bool of_user; /* it has its turn as one of those of `user`; else as one of templates */
	uid_t user;
	uint64_t started_at, ended_at;
	struct problem problem; /* why it failed */
};

/* Watches the directory that packages are installed into; see package_watch.c. */
struct package_watch {
	uv_timer_t timer; /* initialized if `there`; runs until the next measurement */
	uv_work_t work;
	bool there, on, looking;
	/* Of the current or last measurement: */
	char key[DIGEST_HEX];
	const char *dir;
	uint64_t limit;
	int result;
	uint64_t bytes;
};

struct package_jobs;

/* Set once, by the owner of the jobs. */
struct package_ops {
	/* Starts the sandbox of the current step; package_jobs_ran() is called at its end. Return:
	 * 0 or -errno. */
	int (*run)(void *data);
	/* Ends it. */
	void (*stop)(void *data);
	/* Disk space is needed: drops references to unused layers. */
	void (*let_go)(void *data);
};

/*
 * - At most one install is `current`; `prepare`, `lines` and `work` belong to it.
 * - `lock` is open while its directory exists.
 * - `waits` are for jobs.
 */
struct package_jobs {
	struct context *ctx; /* NULL: not initialized */
	struct images *images;
	struct store_client *store;
	struct layers layers;
	const struct package_ops *ops;
	void *data;
	struct vm_packages cfg; /* owns its strings */
	char *script;		/* runs in the sandbox; NULL: it can't be read */
	char *source;		/* registries and mirror, as they enter a layer's key */
	TAILQ_HEAD(package_job_list, package_job) installs;
	struct package_job *current;
	struct wait_list waits;
	uid_t served[PACKAGE_TURNS]; /* users served, each once, most recent first */
	unsigned nserved;

	int lock;
	bool fetched; /* it came from the store */
	bool damaged; /* the copy in the store is unusable */
	uv_work_t work;
	int result; /* of `work` */
	bool full;  /* `result` is from layer_room() */
	uint64_t bytes;

	struct program prepare;
	struct lines lines;	    /* of `prepare`, and of programs in sandboxes */
	struct package_watch watch; /* `on` only while a sandbox runs */
	struct problem why;	    /* why it failed */

	char index[512];  /* found by `prepare`: the registry, "" for the installer's default, */
	char hosts[1024]; /* ... and the hosts to connect to, an allow list */
};

/* ctx, images, store, ops and data have to be set. Return: 0 or -ENOMEM. */
int package_jobs_init(struct package_jobs *in, const struct vm_packages *cfg);
void package_jobs_fini(struct package_jobs *in);

/* The layer that @spec's packages need on this host with backend @ops; the strings of *@ret_need
 * are @spec's. */
void package_jobs_need(const struct package_jobs *in, const struct backend_ops *ops,
		       const struct sandbox_spec *spec, struct layer_need *ret_need);

/**
 * package_jobs_layer() - Get the layer of a sandbox's packages, if it exists
 * @in: Jobs
 * @need: From package_jobs_need()
 *
 * Return: the layer, to be released with layer_put(), or NULL.
 */
struct layer *package_jobs_layer(struct package_jobs *in, const struct layer_need *need);

/**
 * package_jobs_ask() - Request a missing layer
 * @in: Jobs
 * @need: From package_jobs_need()
 * @w: Waits for it, for its owner. NULL: it is for a template that is prepared before it is used; then
 *     it is not retried if it has failed recently
 * @ret_problem: Why it can't be made
 *
 * Return: 0 if it is being made or queued, or -errno.
 */
int package_jobs_ask(struct package_jobs *in, const struct layer_need *need, struct wait *w,
		     struct problem *ret_problem);

/* The sandbox of the current step has ended. @well: it succeeded. */
void package_jobs_ran(struct package_jobs *in, bool well);

/* @w no longer waits: drops a job that has not started and that nobody else needs. */
void package_jobs_unwait(struct package_jobs *in, struct wait *w);

/* Describes what @w waits for; and that it was not made within PACKAGE_JOB_MS. */
void package_jobs_explain(const struct wait *w, struct problem *p);
void package_jobs_explain_late(struct problem *p);

/* See vm_offer(); @ops: the backend. */
int package_jobs_versions(struct package_jobs *in, const struct backend_ops *ops,
			  const struct vm_offer_for *what, const char *packages, vm_offer_fn fn,
			  void *data);

/* Shutdown: kills running programs. Sandboxes end by themselves. */
void package_jobs_cut(struct package_jobs *in);

#endif
