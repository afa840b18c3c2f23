/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of output that the disk has to be waited for. See fetch.h. */
#include "fetch.h"

#include <assert.h>
#include <errno.h>

#include "vm/base/io.h"
#include "fs/mount.h"
#include "fs/request/reply.h"
#include "fs/tree/stream.h"

static void next(struct fetch *f);

static void on_work(uv_work_t *work)
{
	struct fetch_job *job = &container_of(work, struct fetch, work)->job;

	for (unsigned i = 0; i < job->nparts && job->err == 0; i++) {
		const struct fetch_part *p = &job->part[i];

		job->err = fileio_read_at(job->fd, p->to, p->len,
					  depot_place(p->block->slot) + p->offset);
	}
}

static struct waiter *find(struct fetch *f, uint64_t serial)
{
	struct waiter *w;

	TAILQ_FOREACH(w, &f->wait.waiters, link)
		if (w->serial == serial)
			return w;
	return NULL;
}

static void on_done(uv_work_t *work, int status)
{
	struct fetch *f = container_of(work, struct fetch, work);
	struct waiter *w = find(f, f->serial);

	(void)status;
	f->busy = false;
	for (unsigned i = 0; i < f->job.nparts; i++)
		block_unref(&f->fs->depot, f->job.part[i].block);
	if (w) {
		struct handle *h = w->h; /* the waiter is gone when its request is taken from it */
		const uint64_t offset = w->offset;

		if (f->job.err < 0)
			stream_unreadable(h, wait_unpark(w), f->job.err);
		else
			stream_bytes(h, wait_unpark(w), f->bytes, f->job.len, offset);
	}
	next(f);
}

/* What is in memory is copied now, the rest is the job's. */
static void divide(struct fetch *f, const struct spool *sp, size_t size, uint64_t offset)
{
	struct fetch_job *job = &f->job;

	*job = (struct fetch_job){.fd = f->fs->depot.fd};
	if (offset >= sp->len) { /* there was no memory for what it was to continue */
		job->err = -EIO;
		return;
	}
	job->len = (size_t)MIN(MIN((uint64_t)size, (uint64_t)FETCH_MAX), sp->len - offset);
	for (size_t done = 0, n; done < job->len; done += n) {
		uint32_t at;
		struct block *b = spool_block(sp, offset + done, &at);

		n = MIN(job->len - done, (size_t)(b->len - at));
		if (b->state != BLOCK_STORED)
			(void)depot_read(&f->fs->depot, b, at, f->bytes + done, n);
		else
			job->part[job->nparts++] =
				(struct fetch_part){block_ref(b), f->bytes + done, at, (uint32_t)n};
	}
}

static void next(struct fetch *f)
{
	const struct waiter *w = TAILQ_FIRST(&f->wait.waiters);
	int r;

	if (f->busy || !w)
		return;
	divide(f, stream_spool(w->h), w->size, w->offset);
	f->serial = w->serial;
	f->busy = true;
	r = uv_queue_work(f->fs->loop, &f->work, on_work, on_done);
	assert(r == 0);
	(void)r;
}

void fetch_output(struct fetch *f, struct handle *h, struct req *req, size_t size, uint64_t offset)
{
	wait_park_on(f->fs, &f->wait, h, req, size, offset);
	next(f);
}

void fetch_init(struct fetch *f, struct fs *fs)
{
	f->fs = fs;
	f->busy = false;
	waitlist_init(&f->wait);
}

bool fetch_fini(struct fetch *f)
{
	assert(TAILQ_EMPTY(&f->wait.waiters));
	return !f->busy;
}
