/* SPDX-License-Identifier: Apache-2.0 */
/* Computes digests of the files that machines are made of, in a worker thread. */
#include "digest_job.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "vm/base/log.h"

#define RETRY_MS 60000u

/* Whatever else is not known is asked for again when this one is done. */
struct digest_job {
	uv_work_t work;
	struct digest_jobs *all;
	char *dir;
	int fd, stop, result, kept;
	struct digest_known known;
};

static void job_free(struct digest_job *job)
{
	if (job->fd >= 0)
		close(job->fd);
	free(job->dir);
	free(job);
}

static void work(uv_work_t *req)
{
	struct digest_job *job = container_of(req, struct digest_job, work);

	job->result = digest_cache_compute(job->fd, &job->stop, &job->known);
	if (job->result == 0)
		job->kept = digest_cache_keep(job->dir, &job->known, job->all->ctx->publish);
}

static void on_done(uv_work_t *req, int status)
{
	struct digest_job *job = container_of(req, struct digest_job, work);
	struct digest_jobs *j = job->all;

	j->current = NULL;
	if (status == 0 && job->result == 0) {
		digest_cache_add(&j->cache, &job->known);
		if (job->kept < 0)
			log_info("checksums of images are not kept in %s: %s", job->dir,
				 strerror(-job->kept));
	} else if (!j->ctx->closing && job->result != -EAGAIN) {
		log_warn("an image can't be read, so there are no snapshots of it: %s",
			 strerror(-job->result));
		j->retry_at = uv_now(j->ctx->loop) + RETRY_MS;
	}
	job_free(job);
	if (!j->ctx->closing)
		j->changed(j->data);
	context_release(j->ctx);
	context_work(j->ctx);
}

static int start(struct digest_jobs *j, int fd)
{
	struct digest_job *job = calloc(1, sizeof(*job));
	int r;

	if (!job)
		return -ENOMEM;
	job->all = j;
	if (asprintf(&job->dir, "%s/snapshots", j->ctx->cache_dir) < 0)
		job->dir = NULL;
	job->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	r = job->fd < 0 || !job->dir ? -ENOMEM
				     : uv_queue_work(j->ctx->loop, &job->work, work, on_done);
	if (r < 0) {
		job_free(job);
		return r;
	}
	j->current = job;
	context_hold(j->ctx);
	return 0;
}

void digest_jobs_init(struct digest_jobs *j, struct context *ctx, void (*changed)(void *data),
		      void *data)
{
	char dir[PATH_MAX];

	j->ctx = ctx;
	j->changed = changed;
	j->data = data;
	if (snprintf(dir, sizeof(dir), "%s/snapshots", ctx->cache_dir) < (int)sizeof(dir))
		digest_cache_load(&j->cache, dir);
}

/* Has root saved it for all? What was saved since is read again. */
static int ask_shared(struct digest_jobs *j, int fd, char ret_hex[DIGEST_HEX])
{
	char dir[PATH_MAX];
	int r = digest_cache_find(&j->shared, fd, ret_hex);

	if (r == -EAGAIN && j->ctx->shared_dir &&
	    snprintf(dir, sizeof(dir), "%s/snapshots", j->ctx->shared_dir) < (int)sizeof(dir) &&
	    digest_cache_load_shared(&j->shared, dir, &j->shared_file))
		r = digest_cache_find(&j->shared, fd, ret_hex);
	return r;
}

int digest_jobs_ask(struct digest_jobs *j, int fd, char ret_hex[DIGEST_HEX])
{
	int r = digest_cache_find(&j->cache, fd, ret_hex);

	if (r == -EAGAIN)
		r = ask_shared(j, fd, ret_hex);
	if (r != -EAGAIN || j->current || uv_now(j->ctx->loop) < j->retry_at)
		return r;
	r = start(j, fd);
	return r < 0 ? r : -EAGAIN;
}

void digest_jobs_stop(struct digest_jobs *j)
{
	if (j->current)
		__atomic_store_n(&j->current->stop, 1, __ATOMIC_RELAXED);
}
