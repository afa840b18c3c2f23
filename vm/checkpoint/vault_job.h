/* SPDX-License-Identifier: Apache-2.0 */
/* Work on the vault's directory, done by worker threads, a few at a time. */
#ifndef XSBX_VM_CHECKPOINT_VAULT_JOB_H
#define XSBX_VM_CHECKPOINT_VAULT_JOB_H

#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

#include "vault.h"
#include "vault_disk.h"
#include "vm/base/context.h"

/* In the order in which they are begun: somebody waits for the first. */
enum vault_job_kind { VAULT_LOAD, VAULT_STORE, VAULT_REMOVE, VAULT_NKINDS };

struct vault_told {
	TAILQ_ENTRY(vault_told) link;
	vault_stored_fn done;
	void *data;
};

TAILQ_HEAD(vault_told_list, vault_told);

/* One job, which has all that its worker needs: references of its own. Freed when it is over. */
struct vault_job {
	uv_work_t work;
	struct vault_jobs *all;
	enum vault_job_kind kind;
	TAILQ_ENTRY(vault_job) link;
	struct saved *s; /* reference, or NULL; not for the worker */
	struct vault_told_list told;

	char id[SAVED_ID_MAX]; /* of what is stored or loaded */
	char from
		[SAVED_ID_MAX]; /* VAULT_STORE: where its files are if they are not loaded; or "" */
	struct pack *pack;	/* VAULT_STORE: reference; VAULT_LOAD: its result */
	struct point *point;	/* likewise; may be NULL */
	bool memory;		/* VAULT_LOAD: that as well */
	int base;		/* VAULT_LOAD: the point's, if that is in memory already; or -1 */
	char base_sum[DIGEST_HEX];	 /* VAULT_STORE: if it is known; or "" */
	struct vault_head head;		 /* VAULT_STORE: its result */
	char (*removed)[VAULT_NAME_MAX]; /* VAULT_REMOVE: `nremoved` of them, on the heap */
	size_t nremoved;
	int err, memory_err;
};

TAILQ_HEAD(vault_job_list, vault_job);

/* Embedded by the vault. */
struct vault_jobs {
	struct context *ctx;
	const struct vault_disk *disk;
	/* It is about to be begun. */
	void (*prepare)(struct vault_job *job);
	/* It is over, with `err`: -ECANCELED if it was never begun. Called from the loop. */
	void (*over)(struct vault_job *job);

	bool closing;
	unsigned nworking;
	struct vault_job_list queue[VAULT_NKINDS], working;
	struct deferred cut;
};

void vault_jobs_init(struct vault_jobs *all, struct context *ctx, const struct vault_disk *disk,
		     void (*prepare)(struct vault_job *job), void (*over)(struct vault_job *job));

/* @s: gets a reference; or NULL. Return: NULL if out of memory. */
struct vault_job *vault_job_new(struct vault_jobs *all, enum vault_job_kind kind, struct saved *s);

/* Done soon, and `over` follows. The context is held until then. */
void vault_job_queue(struct vault_job *job);

/* For one that was not queued; else that is done when it is over. */
void vault_job_free(struct vault_job *job);

/* Return: the job that stores @s, or NULL. */
struct vault_job *vault_jobs_find(const struct vault_jobs *all, const struct saved *s);

/* Is something of that id being worked on? */
bool vault_jobs_make(const struct vault_jobs *all, const char *id);

/* What has not begun will not. */
void vault_jobs_close(struct vault_jobs *all);

#endif
