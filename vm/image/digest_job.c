/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the files that machines are made of, worked out by a worker thread. */
#include "digest_job.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "vm/base/log.h"
#include "vm/pool/template.h"
#include "vm/vm_internal.h"

#define RETRY_MS 60000u

/* One at a time, so that reading never takes more than one thread and one disk's worth of time.
 * Whatever else is not known is asked for again when this one is done. */
struct contents_job {
	uv_work_t work;
	struct vm *vm;
	char *dir;
	int fd, stop, result, kept;
	struct contents_known known;
};

static void job_free(struct contents_job *job)
{
	if (job->fd >= 0)
		close(job->fd);
	free(job->dir);
	free(job);
}

static void work(uv_work_t *req)
{
	struct contents_job *job = container_of(req, struct contents_job, work);

	job->result = contents_work_out(job->fd, &job->stop, &job->known);
	if (job->result == 0)
		job->kept = contents_keep(job->dir, &job->known);
}

static void on_done(uv_work_t *req, int status)
{
	struct contents_job *job = container_of(req, struct contents_job, work);
	struct vm *vm = job->vm;

	vm->contents_job = NULL;
	context_release(&vm->ctx);
	if (status == 0 && job->result == 0) {
		contents_add(&vm->contents, &job->known);
		if (job->kept < 0)
			log_info("checksums of images are not kept in %s: %s", job->dir,
				 strerror(-job->kept));
	} else if (!vm->ctx.closing && job->result != -EAGAIN) {
		log_warn("an image can't be read, so there are no snapshots of it: %s",
			 strerror(-job->result));
		vm->contents_retry_at = uv_now(vm->ctx.loop) + RETRY_MS;
	}
	job_free(job);
	if (!vm->ctx.closing)
		template_refresh_all(vm);
	context_wake(&vm->ctx);
	context_work(&vm->ctx);
}

static int start(struct vm *vm, int fd)
{
	struct contents_job *job = calloc(1, sizeof(*job));
	int r;

	if (!job)
		return -ENOMEM;
	job->vm = vm;
	if (asprintf(&job->dir, "%s/snapshots", vm->ctx.cache_dir) < 0)
		job->dir = NULL;
	job->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	r = job->fd < 0 || !job->dir ? -ENOMEM
				     : uv_queue_work(vm->ctx.loop, &job->work, work, on_done);
	if (r < 0) {
		job_free(job);
		return r;
	}
	vm->contents_job = job;
	context_hold(&vm->ctx);
	return 0;
}

int contents_ask(struct vm *vm, int fd, char ret_hex[DIGEST_HEX])
{
	int r = contents_find(&vm->contents, fd, ret_hex);

	if (r != -EAGAIN || vm->contents_job || uv_now(vm->ctx.loop) < vm->contents_retry_at)
		return r;
	r = start(vm, fd);
	return r < 0 ? r : -EAGAIN;
}

void contents_stop(struct vm *vm)
{
	if (vm->contents_job)
		__atomic_store_n(&vm->contents_job->stop, 1, __ATOMIC_RELAXED);
}
