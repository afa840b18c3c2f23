/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing snapshots in worker threads. */
#include "template_job.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "pool.h"

static void work(uv_work_t *req)
{
	struct template_job *job = container_of(req, struct template_job, work);

	switch (job->kind) {
	case JOB_LOAD:
		snapshot_clean(job->dir);
		job->result = snapshot_load(job->dir, job->key, &job->snapshot);
		/* What was fetched was put there by somebody who does not look at the rest. */
		if (job->result == 0)
			snapshot_trim(job->dir, job->limit);
		break;
	case JOB_STORE:
		job->result = snapshot_store(job->dir, job->key, &job->snapshot, job->limit);
		break;
	case JOB_REMOVE: (void)snapshot_remove(job->dir, job->key); break;
	}
}

static void job_free(struct template_job *job)
{
	snapshot_close(&job->snapshot);
	free(job->dir);
	free(job);
}

static void on_done(uv_work_t *req, int status)
{
	struct template_job *job = container_of(req, struct template_job, work);
	struct context *ctx = job->template->pool->ctx;

	if (status < 0)
		job->result = -ECANCELED;
	job->template->refs--;
	if (!ctx->closing)
		template_job_done(job);
	context_release(ctx);
	job_free(job);
}

static int dup_snapshot(const struct snapshot *s, struct snapshot *ret_s)
{
	*ret_s = *s;
	ret_s->ram = fcntl(s->ram, F_DUPFD_CLOEXEC, 3);
	ret_s->state = fcntl(s->state, F_DUPFD_CLOEXEC, 3);
	return ret_s->ram < 0 || ret_s->state < 0 ? -errno : 0;
}

int template_job_start(struct template *t, enum job_kind kind, const struct snapshot *s)
{
	struct template_job *job = calloc(1, sizeof(*job));
	int r = 0;

	if (!job)
		return -ENOMEM;
	snapshot_init(&job->snapshot);
	job->template = t;
	job->kind = kind;
	job->limit = t->pool->snapshot_bytes;
	memcpy(job->key, t->key, sizeof(job->key));
	if (asprintf(&job->dir, "%s/snapshots", t->pool->ctx->cache_dir) < 0) {
		job->dir = NULL;
		r = -ENOMEM;
	}
	if (r == 0 && s)
		r = dup_snapshot(s, &job->snapshot);
	if (r == 0)
		r = uv_queue_work(t->pool->ctx->loop, &job->work, work, on_done);
	if (r < 0) {
		job_free(job);
		return r;
	}
	t->refs++;
	context_hold(t->pool->ctx);
	return 0;
}
