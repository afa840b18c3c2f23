/* SPDX-License-Identifier: Apache-2.0 */
/* Files in memory that nobody needs any more. See discard.h. */
#include "discard.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context.h"
#include "lent.h"
#include "util.h"

#define LARGE (1u << 20)

static struct context *context;
static pthread_t thread; /* of its loop */

struct job {
	uv_work_t work;
	struct context *ctx;
	int fd;
	void *map;
	size_t size;
};

void discard_start(struct context *ctx)
{
	if (context)
		return;
	context = ctx;
	thread = pthread_self();
}

void discard_stop(const struct context *ctx)
{
	if (context == ctx)
		context = NULL;
}

static void free_pages(int fd, void *map, size_t size)
{
	if (map)
		munmap(map, size);
	if (fd >= 0)
		close(fd);
}

static void work(uv_work_t *req)
{
	const struct job *job = container_of(req, struct job, work);

	free_pages(job->fd, job->map, job->size);
}

static void on_done(uv_work_t *req, int status)
{
	struct job *job = container_of(req, struct job, work);

	(void)status; /* nobody cancels it */
	context_release(job->ctx);
	free(job);
}

void discard(int fd, void *map, size_t size)
{
	/* A worker thread frees its own, and may not touch the loop. */
	const bool hands_over = context && size >= LARGE && pthread_equal(pthread_self(), thread);
	struct job *job = hands_over ? malloc(sizeof(*job)) : NULL;

	lent_forget(fd);
	if (!job) {
		free_pages(fd, map, size);
		return;
	}
	*job = (struct job){.ctx = context, .fd = fd, .map = map, .size = size};
	if (uv_queue_work(context->loop, &job->work, work, on_done) < 0) {
		free_pages(fd, map, size);
		free(job);
		return;
	}
	context_hold(job->ctx);
}
