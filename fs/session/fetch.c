/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of output. See fetch.h. */
#include "fetch.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "fs.h"
#include "fs/request/reply.h"
#include "node.h"
#include "session.h"

static void next(struct fetch *f);

const struct spool *fetch_spool(const struct handle *h)
{
	return h->r ? run_spool(h->r, node_output(ino_kind(h->ino))) : NULL;
}

static void unreadable(struct handle *h, struct req *req, int err)
{
	if (!front_is_gone(h->front))
		front_problemf(h->front, PROBLEM_OUTPUT_UNREADABLE,
			       "See the disk of spool_dir; run it again.",
			       "output of %s that was kept on disk can't be read: %s",
			       run_words(h->r).text, strerror(-err));
	reply_err(req, -EIO);
}

static void bytes(struct handle *h, struct req *req, const void *data, size_t len, uint64_t offset)
{
	h->cursor = offset + len; /* for poll(2) */
	handle_touch(h);
	reply_buf(req, data, len);
}

static void on_work(uv_work_t *work)
{
	struct fetch_job *job = &container_of(work, struct fetch, work)->job;

	for (unsigned i = 0; i < job->nparts && job->err == 0; i++) {
		const struct fetch_part *p = &job->part[i];

		job->err = depot_fetch(job->fd, job->key, p->block, p->offset, p->to, p->len);
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
		block_unref(f->depot, f->job.part[i].block);
	if (w) {
		struct handle *h = w->h; /* wait_unpark() frees the waiter */
		const uint64_t offset = w->offset;

		if (f->job.err < 0)
			unreadable(h, wait_unpark(w), f->job.err);
		else
			bytes(h, wait_unpark(w), f->bytes, f->job.len, offset);
	}
	next(f);
}

/* Copies what is in memory now, and leaves the rest to the job. */
static void divide(struct fetch *f, const struct spool *sp, size_t size, uint64_t offset)
{
	struct fetch_job *job = &f->job;

	*job = (struct fetch_job){.fd = f->depot->fd, .key = f->depot->key};
	if (offset >= sp->len) { /* output was lost there: out of memory */
		job->err = -EIO;
		return;
	}
	job->len = (size_t)MIN(MIN((uint64_t)size, (uint64_t)FETCH_MAX), sp->len - offset);
	for (size_t done = 0, n; done < job->len; done += n) {
		uint32_t at;
		struct block *b = spool_block(sp, offset + done, &at);

		n = MIN(job->len - done, (size_t)(b->len - at));
		if (b->state != BLOCK_STORED)
			(void)depot_read(f->depot, b, at, f->bytes + done, n);
		else
			job->part[job->nparts++] =
				(struct fetch_part){block_ref(b), f->bytes + done, at, (uint32_t)n};
	}
}

/* It is in a file of what is kept, and is brought from there first. Return: false if it is not. */
static bool bring(struct fetch *f, const struct waiter *w)
{
	const struct spool *sp = fetch_spool(w->h);

	if (!sp->away)
		return false;
	f->busy = true;
	f->serial = w->serial;
	w->h->fs->keeping->bring(w->h->s, w->h->r, (unsigned)(sp - w->h->r->spool));
	return true;
}

void fetch_brought(struct fetch *f, int err)
{
	struct waiter *w = find(f, f->serial);
	struct handle *h = w ? w->h : NULL;

	f->busy = false;
	if (w && err < 0)
		unreadable(h, wait_unpark(w), err);
	next(f);
}

static void next(struct fetch *f)
{
	const struct waiter *w = TAILQ_FIRST(&f->wait.waiters);
	int r;

	if (f->busy || !w || bring(f, w))
		return;
	divide(f, fetch_spool(w->h), w->size, w->offset);
	f->serial = w->serial;
	f->busy = true;
	r = uv_queue_work(f->depot->loop, &f->work, on_work, on_done);
	assert(r == 0);
	(void)r;
}

bool fetch_output(struct handle *h, struct req *req, size_t size, uint64_t offset)
{
	const struct spool *sp = fetch_spool(h);
	struct fs *fs = h->fs;
	const ssize_t n =
		sp ? spool_read(sp, &fs->depot, offset, fs->io, MIN(size, sizeof(fs->io))) : 0;

	if (n == -EAGAIN) {
		wait_park_on(&fs->fetch.wait, h, req, size, offset);
		next(&fs->fetch);
	} else if (n < 0 && offset >= sp->len) {
		reply_err(req, (int)n); /* that output was lost: `error` says why */
	} else if (n < 0) {
		unreadable(h, req, (int)n);
	} else if (n > 0) {
		bytes(h, req, fs->io, (size_t)n, offset);
	}
	return n != 0;
}

void fetch_init(struct fetch *f, struct depot *depot)
{
	f->depot = depot;
	f->busy = false;
	waitlist_init(&f->wait);
}

bool fetch_fini(struct fetch *f)
{
	assert(TAILQ_EMPTY(&f->wait.waiters));
	return !f->busy;
}
