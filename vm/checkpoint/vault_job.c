/* SPDX-License-Identifier: Apache-2.0 */
/* Work on the vault's directory. See vault_job.h. */
#include "vault_job.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "point.h"
#include "vm/base/util.h"

#define WORKING_MOST 2u /* of libuv's four threads, which are for everybody */

static void pump(struct vault_jobs *all);

/* ---- what the worker threads do ---- */

static void load(struct vault_job *job)
{
	const struct vault_disk *disk = job->all->disk;
	struct vault_head h;
	struct buf text = {0};

	job->err = vault_disk_head(disk, job->id, &text, &h);
	if (job->err == 0)
		job->err = vault_disk_pack(disk, job->id, &h, &job->pack);
	/* The files come first: they are there even if the rest can't be had. */
	if (job->err == 0 && job->memory)
		job->memory_err = vault_disk_point(disk, job->id, &h, job->base, &job->point);
	buf_clear(&text);
}

static void store(struct vault_job *job)
{
	const struct vault_disk *disk = job->all->disk;
	struct vault_head h;
	struct buf text = {0};

	if (*job->from) {
		job->err = vault_disk_head(disk, job->from, &text, &h);
		if (job->err == 0)
			job->err = vault_disk_pack(disk, job->from, &h, &job->pack);
		buf_clear(&text);
	}
	if (job->err == 0)
		job->err = vault_disk_store(disk, job->id, job->pack, job->point, job->base_sum,
					    &job->head);
}

static void work(uv_work_t *req)
{
	struct vault_job *job = container_of(req, struct vault_job, work);

	switch (job->kind) {
	case VAULT_LOAD: load(job); break;
	case VAULT_STORE: store(job); break;
	case VAULT_REMOVE:
		for (size_t i = 0; i < job->nremoved; i++)
			vault_disk_remove(job->all->disk, job->removed[i]);
		vault_disk_sweep(job->all->disk);
		break;
	case VAULT_NKINDS: assert(0);
	}
}

/* ---- one of them ---- */

struct vault_job *vault_job_new(struct vault_jobs *all, enum vault_job_kind kind, struct saved *s)
{
	struct vault_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->all = all;
	job->kind = kind;
	job->base = -1;
	job->s = s ? saved_ref(s) : NULL;
	TAILQ_INIT(&job->told);
	return job;
}

void vault_job_free(struct vault_job *job)
{
	pack_unref(job->pack);
	point_unref(job->point);
	if (job->base >= 0)
		close(job->base);
	saved_unref(job->s);
	free(job->removed);
	free(job);
}

static void over(struct vault_job *job)
{
	struct context *ctx = job->all->ctx;

	job->all->over(job);
	vault_job_free(job);
	context_release(ctx);
}

static void on_worked(uv_work_t *req, int status)
{
	struct vault_job *job = container_of(req, struct vault_job, work);
	struct vault_jobs *all = job->all;

	assert(status == 0); /* nobody cancels it */
	TAILQ_REMOVE(&all->working, job, link);
	all->nworking--;
	pump(all);
	over(job);
}

/* ---- all of them ---- */

/* At the end only what takes something away is begun: nobody does it later in this process. */
static bool begins(const struct vault_jobs *all, unsigned kind)
{
	return !all->closing || kind == VAULT_REMOVE;
}

static void pump(struct vault_jobs *all)
{
	struct vault_job *job;

	for (unsigned kind = 0; kind < VAULT_NKINDS; kind++) {
		if (!begins(all, kind))
			continue;
		while (all->nworking < WORKING_MOST && (job = TAILQ_FIRST(&all->queue[kind]))) {
			TAILQ_REMOVE(&all->queue[kind], job, link);
			TAILQ_INSERT_TAIL(&all->working, job, link);
			all->nworking++;
			all->prepare(job);
			uv_queue_work(all->ctx->loop, &job->work, work, on_worked);
		}
	}
	if (all->closing)
		context_defer(all->ctx, &all->cut);
}

void vault_job_queue(struct vault_job *job)
{
	context_hold(job->all->ctx);
	TAILQ_INSERT_TAIL(&job->all->queue[job->kind], job, link);
	pump(job->all);
}

static void on_cut(struct deferred *d)
{
	struct vault_jobs *all = container_of(d, struct vault_jobs, cut);
	struct vault_job *job;

	for (unsigned kind = 0; kind < VAULT_NKINDS; kind++) {
		while (!begins(all, kind) && (job = TAILQ_FIRST(&all->queue[kind]))) {
			TAILQ_REMOVE(&all->queue[kind], job, link);
			job->err = -ECANCELED;
			over(job);
		}
	}
}

void vault_jobs_init(struct vault_jobs *all, struct context *ctx, const struct vault_disk *disk,
		     void (*prepare)(struct vault_job *job), void (*over_fn)(struct vault_job *job))
{
	*all = (struct vault_jobs){.ctx = ctx,
				   .disk = disk,
				   .prepare = prepare,
				   .over = over_fn,
				   .cut = {.run = on_cut}};
	for (unsigned kind = 0; kind < VAULT_NKINDS; kind++)
		TAILQ_INIT(&all->queue[kind]);
	TAILQ_INIT(&all->working);
}

struct vault_job *vault_jobs_find(const struct vault_jobs *all, const struct saved *s)
{
	struct vault_job *job;

	TAILQ_FOREACH(job, &all->queue[VAULT_STORE], link)
		if (job->s == s)
			return job;
	TAILQ_FOREACH(job, &all->working, link)
		if (job->kind == VAULT_STORE && job->s == s)
			return job;
	return NULL;
}

bool vault_jobs_make(const struct vault_jobs *all, const char *id)
{
	const struct vault_job *job;

	TAILQ_FOREACH(job, &all->working, link)
		if (strcmp(job->id, id) == 0)
			return true;
	return false;
}

void vault_jobs_close(struct vault_jobs *all)
{
	all->closing = true;
	pump(all);
}
