/* SPDX-License-Identifier: Apache-2.0 */
/* The node `stdin`, of a session and of a job: what the next run reads, or one that runs. */
#include "nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "fs/request/reply.h"
#include "fs/session/binding.h"
#include "fs/session/fs.h"
#include "fs/session/job.h"
#include "fs/session/quota.h"
#include "fs/session/session.h"
#include "fs/session/touch.h"

/*
 * The rule of FIFOs, see feed.h. An open descriptor belongs to no run, and what is written to it is kept for the one to
 * come; or it is a writer of `r`, to which it was bound when that was submitted, or when it was opened while there were
 * others. When that run has ended, it is the next one's, if it is still open then; until then there is nobody to write to.
 *
 * A job has no next run. So where its input was at an end, a later open is refused at the first write. One of `tty` then has
 * the run for reading, and is no writer of it (`feeds`).
 */

#define SMALL (16u << 10) /* bytes that nobody counts */

static int stdin_open(struct handle *h)
{
	struct front *f = h->front;
	struct run *r = front_fed(f);

	h->waitlist = f->waitlist;
	h->stream = r != NULL;
	if (r) {
		front_bind(h, r);
		h->feeds = true;
		feed_join(&r->feed);
	} else if (h->flags & O_TRUNC) {
		f->stdin_taken++;
		trail_changed(&f->stdin_trail);
		buf_clear(&f->next_stdin);
		f->stdin_mtime = clock_now();
	}
	h->expected = f->stdin_taken;
	TAILQ_INSERT_TAIL(&f->feeders, h, input_link);
	return 0;
}

static void stdin_release(struct handle *h)
{
	struct front *f = h->front;

	TAILQ_REMOVE(&f->feeders, h, input_link);
	if (!h->feeds)
		return;
	feed_leave(&h->r->feed);
	binding_feed(f);
}

/* ---- for the run to come ---- */

/*
 * Return: where data written at @offset of this open goes. When a run has taken the input, or it was emptied, the
 * kernel's offset still counts what was there before.
 */
static uint64_t stdin_place(struct handle *h, uint64_t offset)
{
	const struct front *f = h->front;

	if ((h->flags & O_APPEND) || h->duplex)
		return f->next_stdin.len;
	if (h->expected != f->stdin_taken) {
		h->expected = f->stdin_taken;
		h->base = offset;
	}
	h->base = MIN(h->base, offset);
	return offset - h->base;
}

/* Nobody will read what is written to this job. Return: -EPIPE. */
static int at_end(struct front *f)
{
	const char *noun = job_noun(f->job);

	if (run_ended(f->latest))
		front_problemf(f, PROBLEM_NOT_RUNNING, "", "the %s has ended", noun);
	else if (f->job->settings.tty || f->job->settings.input)
		front_problemf(f, PROBLEM_NOT_RUNNING, "",
			       "the %s goes on, but its standard input has ended", noun);
	else
		front_problemf(
			f, PROBLEM_NOT_RUNNING,
			"Open it before the start; or stdin = open in the `config` of the next one "
			"keeps it open.",
			"the %s goes on, but its standard input has ended", noun);
	return -EPIPE;
}

static int write_ahead(struct handle *h, const void *data, size_t size, uint64_t offset)
{
	struct front *f = h->front;
	int e;

	if (front_is_gone(f))
		return -ESTALE;
	if (f->job && f->latest)
		return at_end(f);
	offset = stdin_place(h, offset);
	if (offset > SESSION_STDIN_MAX || size > SESSION_STDIN_MAX - offset) {
		front_problemf(
			f, PROBLEM_STDIN_TOO_LONG,
			"Write the rest when it runs, to a descriptor that is opened before; "
			"or put the data into files/.",
			"at most %u bytes of standard input may be written before the start",
			SESSION_STDIN_MAX);
		return -EFBIG;
	}
	e = quota_take(h->s, f->next_stdin.len, (size_t)offset + size);
	if (e < 0)
		return e;
	f->stdin_mtime = clock_now();
	if (offset < f->next_stdin.len)
		trail_changed(&f->stdin_trail);
	return buf_write_at(&f->next_stdin, offset, data, size);
}

/* ---- for one that was submitted ---- */

static void write_live(struct handle *h, struct req *req, const void *data, size_t size,
		       bool nonblock)
{
	struct feed *feed = &h->r->feed;
	int e = 0;

	/* Also where it has to wait. What is typed does not add up, and adding up all there is takes a while. */
	if (feed_bytes(feed) + size > SMALL)
		e = quota_take(h->s, 0, size);
	if (e == 0)
		e = feed_write(feed, data, size);
	if (e == -EAGAIN && !nonblock) {
		feed_park(feed, req, data, size);
		return;
	}
	if (e < 0) {
		reply_err(req, e);
		return;
	}
	h->front->stdin_mtime = clock_now();
	touch_run(h->r);
	reply_write(req, size);
	session_used(h->s);
	binding_feed(h->front);
}

void stdin_write(struct handle *h, struct req *req, const void *data, size_t size, uint64_t offset,
		 bool nonblock)
{
	int e;

	if (h->feeds) {
		write_live(h, req, data, size, nonblock);
		return;
	}
	e = write_ahead(h, data, size, offset);
	if (e < 0)
		reply_err(req, e);
	else
		reply_write(req, size);
}

static int empty(struct front *f, uint64_t size)
{
	if (size > f->next_stdin.len)
		return -EINVAL;
	(void)buf_truncate(&f->next_stdin, (size_t)size);
	trail_changed(&f->stdin_trail);
	if (size == 0)
		f->stdin_taken++;
	return 0;
}

int stdin_truncate_path(const struct node *n, uint64_t size)
{
	return front_fed(n->front) ? 0 : empty(n->front, size);
}

static int stdin_truncate(struct handle *h, uint64_t size)
{
	struct front *f = h->front;
	const bool in_step = h->expected == f->stdin_taken;
	int e;

	if (h->feeds)
		return 0; /* what was written is on its way */
	e = empty(f, size);
	if (in_step) /* an open that empties it itself keeps its base */
		h->expected = f->stdin_taken;
	return e;
}

static unsigned stdin_poll(struct handle *h)
{
	const struct feed *feed = h->feeds ? &h->r->feed : NULL;

	if (!feed || (feed_is_open(feed) && !feed_is_full(feed)))
		return POLLOUT | POLLWRNORM;
	return feed_is_open(feed) ? 0 : POLLERR | POLLOUT | POLLWRNORM;
}

const struct handle_ops stdin_ops = {
	.open = stdin_open,
	.write_late = stdin_write,
	.truncate = stdin_truncate,
	.release = stdin_release,
	.poll = stdin_poll,
};
