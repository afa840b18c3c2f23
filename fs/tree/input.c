/* SPDX-License-Identifier: Apache-2.0 */
/* The node `in`, of a session and of a job. */
#include "nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "vm/base/log.h"
#include "fs/request/reply.h"
#include "fs/session/fs.h"
#include "fs/session/job.h"
#include "fs/session/quota.h"
#include "fs/session/session.h"

/*
 * Theory of operation: when a run starts
 * --------------------------------------
 * Each open of `in` for writing has its own buffer. Shells flush a descriptor several times (the
 * first time before there is any data, and again whenever a child that inherited it exits), so FLUSH
 * only means that RELEASE may follow soon; the buffer becomes a run at RELEASE, which the kernel
 * sends when the last duplicate is closed. It arrives before any later request of the same
 * program, because there is one queue and one thread. But a process that inherited the descriptor may keep it
 * open longer: so while an open `in` contains code, the waiting nodes wait until it becomes a run,
 * see session_input_pending(), instead of showing the previous run.
 *
 * A writer killed by a signal is flushed and released like any other; at its FLUSH the kernel's
 * task flags show that it is exiting, and what it wrote is discarded.
 *
 * Errors are reported in OPEN or WRITE where possible, because shells ignore the result of
 * close(2).
 */

/* ---- in ---- */

/* A job may be any program, a session's code is text for its interpreter. */
static bool may_be_binary(const struct front *f)
{
	return f->job && !f->job->of_session && !f->job->settings.language;
}

int input_check(struct front *f, const void *data, size_t len, uint64_t offset)
{
	if (offset > SESSION_CODE_MAX || len > SESSION_CODE_MAX - offset) {
		front_problemf(f, PROBLEM_CODE_TOO_LONG,
			       "Put the bulk into files/, and import or read it from there.",
			       "code may be at most %u bytes long", SESSION_CODE_MAX);
		return -EFBIG;
	}
	if (!may_be_binary(f) && memchr(data, '\0', len)) {
		front_problemf(f, PROBLEM_NUL_BYTE, "Pass binary data through files/ or stdin.",
			       "code must not contain NUL bytes");
		return -EINVAL;
	}
	return 0;
}

int input_can_submit(struct front *f)
{
	return f->job ? job_can_start(f->job, true) : session_can_submit(f->s, NULL);
}

static int submit_late(struct front *f, struct buf *code, const struct timespec *mtime)
{
	return f->job ? job_start_late(f->job, code, mtime)
		      : session_submit_late(f->s, code, mtime);
}

struct handle *input_writer(const struct front *f)
{
	struct handle *h, *newest = NULL;

	TAILQ_FOREACH(h, &f->inputs, input_link)
		if (h->dirty && !h->killed)
			newest = h;
	return newest;
}

static int input_open(struct handle *h)
{
	struct front *f = h->front;
	int e;

	if (!handle_writes(h))
		return 0; /* its text is rendered */
	e = input_can_submit(f);
	if (e < 0)
		return e;
	/* An open without O_TRUNC and O_APPEND edits the last code; appended code is a program of its own. */
	if (!(h->flags & (O_TRUNC | O_APPEND))) {
		e = front_check_last_code(f);
		if (e == 0)
			e = buf_append(&h->text, f->last_code.data, f->last_code.len);
		if (e < 0)
			return e;
	}
	h->mtime = clock_now();
	TAILQ_INSERT_TAIL(&f->inputs, h, input_link);
	return 0;
}

static int input_append(struct handle *h, const void *data, size_t size, uint64_t offset)
{
	int e;

	/* The kernel's offset is then the size of the file, which may be another writer's. */
	if (h->flags & O_APPEND)
		offset = h->text.len;
	e = input_check(h->front, data, size, offset);
	if (e < 0)
		return e;
	if (offset > h->text.len && !may_be_binary(h->front)) {
		front_problemf(h->front, PROBLEM_NUL_BYTE,
			       "Write code from its beginning to its end.",
			       "a gap in the code would be NUL bytes");
		return -EINVAL;
	}
	e = input_can_submit(h->front);
	if (e == 0)
		e = quota_take(h->s, h->text.len, (size_t)offset + size);
	if (e < 0)
		return e;
	handle_rewrite(h, (size_t)offset);
	return buf_write_at(&h->text, offset, data, size);
}

/* Refuses all writes after one that failed, because the program would not be complete. */
static int refuse_again(struct handle *h)
{
	if (h->failed == -EBUSY || h->failed == -EDQUOT || h->failed == -ENOMEM)
		front_problemf(h->front, PROBLEM_WRITE_REFUSED,
			       "Write all of it again: open `in` anew, or truncate it to 0 first.",
			       "an earlier write of this code was refused (%s), so what follows is "
			       "no whole program",
			       strerror(-h->failed));
	return h->failed;
}

static int input_write(struct handle *h, const void *data, size_t size, uint64_t offset)
{
	int e;

	if (h->failed)
		return refuse_again(h);
	e = input_append(h, data, size, offset);
	if (e < 0) {
		h->failed = e;
		wait_wake(h->front->waitlist); /* it will not become a run */
		return e;
	}
	h->dirty = true;
	h->killed = false; /* another process that shares the descriptor was killed */
	h->mtime = clock_now();
	session_used(h->s);
	return 0;
}

static int input_truncate(struct handle *h, uint64_t size)
{
	if (size > h->text.len)
		return -EINVAL; /* the gap would be NUL bytes */
	if (size == 0)
		h->failed = 0; /* it starts over */
	h->mtime = clock_now();
	handle_rewrite(h, (size_t)size);
	(void)buf_truncate(&h->text, (size_t)size); /* shrinking can't fail */
	wait_wake(h->front->waitlist);
	return 0;
}

int input_truncate_path(const struct node *n, uint64_t size)
{
	struct front *f = n->front;
	struct handle *h = TAILQ_LAST(&f->inputs, input_list);
	struct buf *b = h ? &h->text : &f->last_code;

	if (f->latest && f->job)
		return input_can_submit(f); /* it stays what was started */
	if (size > b->len)
		return -EINVAL;
	if (h) {
		h->mtime = clock_now();
		handle_rewrite(h, (size_t)size);
	}
	(void)buf_truncate(b, (size_t)size);
	f->code_lost = h ? f->code_lost : 0;
	wait_wake(f->waitlist);
	return 0;
}

/* Size and time of `in` are others now, without a request that has told the kernel. */
static void input_changed(const struct handle *h)
{
	kernel_drop_attr(h->fs->kernel, h->ino);
}

static int input_flush(struct handle *h, bool killed)
{
	if (!handle_writes(h) || !h->dirty)
		return 0;
	h->killed = killed;
	if (killed) {
		wait_wake(h->front->waitlist); /* it will not become a run */
		input_changed(h);
	}
	return 0;
}

/* Reports code that could not be queued in the log and in `error`: its writer has closed the file. */
static void drop(struct front *f, int err)
{
	const char *first = "another writer of `in` was first, so this program was dropped";

	/* Nothing that its administrator could mend. */
	if (f->job && f->latest) {
		front_problemf(f, PROBLEM_DROPPED, job_another(f->job),
			       f->job->of_session ? "a named run takes code once, and %s"
						  : "a job is started once, and %s",
			       first);
		return;
	}
	log_about(LOG_LEVEL_WARN, session_label(f->s), problem_code_str(PROBLEM_DROPPED),
		  "%s: code was dropped: %s", f->job ? f->job->path : f->s->path, strerror(-err));
	if (!problem_kept(&f->error)->code)
		front_problemf(f, PROBLEM_DROPPED, "Write it again.",
			       "code did not become a run: %s", strerror(-err));
}

static void input_release(struct handle *h)
{
	struct front *f = h->front;
	int e = -ECANCELED;

	if (!handle_writes(h))
		return;
	TAILQ_REMOVE(&f->inputs, h, input_link);
	if (front_is_gone(f))
		return; /* nothing will become a run any more */
	/* Most errors were returned by open and write. Empty code does not run. */
	if (h->dirty && !h->killed && !h->failed && h->text.len) {
		e = submit_late(f, &h->text, &h->mtime);
		if (e < 0)
			drop(f, e);
	}
	if (h->dirty && (e < 0 || input_writer(f)))
		input_changed(h); /* it is not what this one has written */
	wait_wake(f->waitlist);
}

const struct handle_ops input_ops = {
	.open = input_open,
	.read = text_read,
	.write = input_write,
	.truncate = input_truncate,
	.flush = input_flush,
	.release = input_release,
	.notes = true,
};
