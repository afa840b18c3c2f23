/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that show a run's output and exit status. */
#include "nodes.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "fs/session/fs.h"
#include "fs/session/job.h"
#include "fs/request/reply.h"
#include "fs/session/session.h"

/*
 * Theory of operation
 * -------------------
 * At the top of a session, and of a job, `stdout`, `stderr`, `output` and `exit_code` belong to the run that was the
 * newest when they were opened, and a read at the end of the present output waits until there is more or
 * the run has ended. Which run that is may only be known at the first read: if code is
 * about to become a run (its writer has flushed, but not yet released `in`), the read
 * waits for that first.
 *
 * Below runs/N/ the same nodes never wait; only `wait` does.
 *
 * The size is exact once the run has ended. Until then the waiting nodes show 0, not the present size:
 * a program that reads as many bytes as st_size would otherwise stop short (as node's readFileSync
 * does). Those of runs/N/ show the present size.
 *
 * But copying programs take a size of 0 for an empty file, without a single read. So while a waiting node
 * of unknown size is open, the size shown is larger than any output can be: programs that read to the end work,
 * and programs that expect that many bytes fail, instead of making an empty copy. Such an open file is not seekable,
 * or programs would look for its end there, and sendfile(2) would stop at the end of the page cache. SFTP servers, which do not read without seeking, may: see caller.h.
 */

#define OUTPUT_UNKNOWN (1u << 20) /* on top of what may be printed */
#define STATUS_UNKNOWN 4096u	  /* also if there will never be a status: reading fails */

size_t stream_status_text(const struct run *r, char text[8])
{
	assert(run_has_status(r));
	return (size_t)snprintf(text, 8, "%u\n", r->result.status);
}

/* Is the size final? */
static bool is_whole(const struct front *f, const struct run *r)
{
	return !front_input_pending(f) && (!r || run_ended(r));
}

/* The size of a node that waits: @most while it is open, see above. */
static uint64_t unknown_size(const struct node *n, uint64_t most)
{
	return handles_stream(&n->s->fs->handles, n->ino) ? most : 0;
}

static uint64_t output_size(const struct node *n, const struct run *r)
{
	return r ? spool_size(run_spool(r, node_output(n->kind))) : 0;
}

uint64_t stream_size(const struct node *n)
{
	const struct run *r = n->front->latest;

	return is_whole(n->front, r)
		       ? output_size(n, r)
		       : unknown_size(n, 2 * n->s->fs->conf->output_bytes + OUTPUT_UNKNOWN);
}

uint64_t run_stream_size(const struct node *n)
{
	return output_size(n, n->r);
}

uint64_t status_wait_size(const struct node *n)
{
	const struct run *r = n->r ? n->r : n->front->latest;
	char text[8];

	if (!is_whole(n->front, r))
		return unknown_size(n, STATUS_UNKNOWN);
	if (!r)
		return 0;
	return run_has_status(r) ? stream_status_text(r, text) : STATUS_UNKNOWN;
}

/* ---- which run ---- */

/* The session, or the job, was removed before it was decided which run this handle belongs to: now it never will be. */
static bool is_stale(const struct handle *h)
{
	return front_is_gone(h->front) && !h->bound && !h->r;
}

static unsigned timeout_of(const struct handle *h)
{
	return h->job ? h->job->settings.timeout_s : h->s->settings.timeout_s;
}

/*
 * Waits while code is being written: the run to show is not known before `in` is closed. After the time that a run
 * may take, the reader gets an error instead of the output of the previous run.
 */
static void await_input(struct handle *h, struct req *req, size_t size, uint64_t offset,
			bool nonblock)
{
	struct fs *fs = h->fs;
	const uint64_t now = uv_now(fs->loop);

	if (is_stale(h)) {
		reply_err(req, -ESTALE);
	} else if (h->cached) {
		reply_err(req, -EIO); /* such a wait could not be interrupted */
	} else if (nonblock) {
		reply_err(req, -EAGAIN);
	} else if (h->deadline && now >= h->deadline) {
		h->deadline = 0;
		front_problemf(
			h->front, PROBLEM_IN_OPEN,
			"Close it: its code runs when the last descriptor is closed. runs/ has the "
			"runs there are.",
			"a program that has written to `in` keeps it open");
		reply_err(req, -ETIMEDOUT);
	} else {
		if (!h->deadline && timeout_of(h)) {
			h->deadline = now + timeout_of(h) * 1000ull;
			alarm_set(&fs->alarm, h->deadline);
		}
		wait_park(h, req, size, offset);
	}
}

/* Decides which run this handle belongs to, unless a new one is about to begin. A job has none before its start, but will
 * have no other. */
static bool bind_run(struct handle *h)
{
	if (h->job && !h->r && !h->front->latest && !front_input_pending(h->front) && !is_stale(h))
		return true;
	if (!h->bound && !is_stale(h) && (h->r || !front_input_pending(h->front))) {
		if (!h->r)
			front_bind(h, h->front->latest);
		h->bound = true;
		h->deadline = 0;
	}
	return h->bound;
}

static int stream_open(struct handle *h)
{
	h->waitlist = h->front->waitlist;
	h->stream = !bind_run(h) || (h->r && !run_ended(h->r));
	return 0;
}

/* ---- output ---- */

/*
 * To the page cache, a short read is the end of the file: sendfile(2) would stop there, and a mapping would show
 * zeroes. So it gets all bytes up to the real end, or an error, after which most programs use read(2).
 */
static bool suits_cache(const struct spool *sp, size_t size, uint64_t offset)
{
	return !sp->err || (offset < sp->len && size <= sp->len - offset);
}

/* Return: true if there were bytes (or an error) and the request is answered, or will be. */
static bool reply_output(struct handle *h, struct req *req, size_t size, uint64_t offset)
{
	const struct spool *sp = fetch_spool(h);

	if (sp && h->cached && !suits_cache(sp, size, offset)) {
		reply_err(req, -EIO);
		return true;
	}
	return fetch_output(h, req, size, offset);
}

static void stream_read(struct handle *h, struct req *req, size_t size, uint64_t offset,
			bool nonblock)
{
	if (!bind_run(h)) {
		await_input(h, req, size, offset, nonblock);
		return;
	}
	if (h->cached && h->r && !run_ended(h->r)) {
		reply_err(req, -EIO);
		return;
	}
	if (reply_output(h, req, size, offset))
		return;
	if (!h->r || run_ended(h->r))
		reply_buf(req, "", 0);
	else
		wait_or_refuse(h, req, size, offset, nonblock);
}

/* poll(2) knows no offset: once the run has ended, or has written anything, a read may succeed. */
static unsigned stream_poll(struct handle *h)
{
	if (!bind_run(h))
		return is_stale(h) ? POLLIN | POLLRDNORM : 0;
	if (!h->r || run_ended(h->r))
		return POLLIN | POLLRDNORM;
	return fetch_spool(h)->len > h->cursor ? POLLIN | POLLRDNORM : 0;
}

const struct handle_ops stream_ops = {
	.open = stream_open,
	.read = stream_read,
	.poll = stream_poll,
	.notes = true,
};

static void run_stream_read(struct handle *h, struct req *req, size_t size, uint64_t offset,
			    bool nonblock)
{
	(void)nonblock;
	if (!reply_output(h, req, size, offset))
		reply_buf(req, "", 0);
}

const struct handle_ops run_stream_ops = {
	.read = run_stream_read,
	.notes = true,
};

/* ---- exit status ---- */

static void status_read(struct handle *h, struct req *req, size_t size, uint64_t offset,
			bool nonblock)
{
	char text[8];
	size_t len;

	if (!bind_run(h)) {
		await_input(h, req, size, offset, nonblock);
		return;
	}
	if (h->r && !run_ended(h->r)) {
		wait_or_refuse(h, req, size, offset, nonblock);
		return;
	}
	if (!h->r || !run_has_status(h->r)) {
		reply_err(req, -EIO); /* lost or refused: there is no status */
		return;
	}
	len = stream_status_text(h->r, text);
	offset = MIN(offset, len);
	reply_buf(req, text + offset, MIN(size, len - (size_t)offset));
}

static unsigned status_poll(struct handle *h)
{
	if (!bind_run(h))
		return is_stale(h) ? POLLIN | POLLRDNORM : 0;
	return !h->r || run_ended(h->r) ? POLLIN | POLLRDNORM : 0;
}

const struct handle_ops status_wait_ops = {
	.open = stream_open,
	.read = status_read,
	.poll = status_poll,
	.notes = true,
};
