/* SPDX-License-Identifier: Apache-2.0 */
/* The `ctl` nodes: what is written to a session's or a job's is done; the root's says what is logged. */
#include "nodes.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/session/changes.h"
#include "fs/request/reply.h"
#include "fs/session/fs.h"
#include "fs/session/job.h"
#include "fs/session/pause.h"
#include "fs/session/quota.h"
#include "fs/session/rerun_verbs.h"
#include "fs/session/session.h"
#include "fs/session/touch.h"
#include "vm/base/log.h"
#include "ctl.h"

static int checkpoint(struct session *s, const struct ctl_order *o)
{
	struct checkpoint *cp;

	return session_checkpoint(s, o->name, o->when_idle || s->settings.when == SAVE_IDLE, &cp);
}

static int do_session(struct session *s, const struct ctl_order *o)
{
	const int e = session_check_damaged(s);

	if (e < 0)
		return e;
	switch (o->verb) {
	case CTL_INTERRUPT: return session_interrupt(s);
	case CTL_KILL: return session_kill(s);
	case CTL_RESET: return session_reset(s);
	case CTL_CLOSE: return session_close(s);
	case CTL_COMMIT: return commit_begin(s);
	case CTL_DISCARD: return commit_discard(s);
	case CTL_PAUSE: return pause_begin(s);
	case CTL_RESUME: return session_resume(s);
	case CTL_EOF: return session_end_input(s);
	case CTL_SLEEP: return session_sleep(s);
	case CTL_WAKE: return session_wake(s);
	case CTL_CHECKPOINT: return checkpoint(s, o);
	case CTL_RESTORE: return session_restore(s, o->name);
	case CTL_REPLAY: return rerun_begin(s, o->run);
	case CTL_START:
	case CTL_SIGNAL:
	case CTL_NVERBS: break;
	}
	assert(0);
	return -EINVAL;
}

static int start(struct job *j)
{
	const struct timespec now = clock_now();
	struct buf none = {0};

	return job_start(j, &none, &now);
}

static int do_job(struct job *j, const struct ctl_order *o)
{
	switch ((int)o->verb) {
	case CTL_START: return start(j);
	case CTL_INTERRUPT: return job_signal(j, SANDBOX_INTERRUPT);
	case CTL_KILL: return job_kill(j);
	case CTL_SIGNAL: return job_signal(j, SANDBOX_SIGNAL + (unsigned)o->sig);
	case CTL_EOF: return job_end_input(j);
	default: assert(0); return -EINVAL;
	}
}

static enum ctl_owner owner_of(const struct handle *h)
{
	if (!h->job)
		return CTL_SESSION;
	return h->job->of_session ? CTL_RUN : CTL_JOB;
}

/* A write of which nothing is done yet: the checkpoints of its `restore` are read first, one by one. So whoever goes on for a
 * daemon that has died has it all before him. */
struct late {
	struct restoring reading;
	struct handle *h; /* stays open until it is answered */
	struct req *req;
	size_t size; /* of what was written */
	size_t next, n;
	struct ctl_order order[CTL_VERBS_MAX];
};

static int do_all(struct handle *h, const struct ctl_order *orders, size_t n)
{
	int e = front_is_gone(h->front) ? -ESTALE : 0;

	for (size_t i = 0; i < n && e == 0; i++)
		e = h->job ? do_job(h->job, &orders[i]) : do_session(h->s, &orders[i]);
	return e;
}

static void answer(struct req *req, int err, size_t size)
{
	if (err < 0)
		reply_err(req, err);
	else
		reply_write(req, size);
}

static void late_end(struct late *l, int err)
{
	req_on_interrupt(l->req, NULL, NULL);
	answer(l->req, err, l->size);
	free(l);
}

/* Return: whether something has to be read. */
static bool read_next(struct late *l)
{
	while (l->next < l->n) {
		const struct ctl_order *o = &l->order[l->next++];

		if (o->verb == CTL_RESTORE && restoring_begin(&l->reading, l->h->s, o->name))
			return true;
	}
	return false;
}

static void on_read(struct restoring *r, int err)
{
	struct late *l = container_of(r, struct late, reading);
	struct session *s = l->h->s;

	if (err == 0 && !s->dead && read_next(l))
		return;
	if (err == 0) {
		touch_session(s); /* as the request has, which came in another turn */
		touch_rest(s);
		err = do_all(l->h, l->order, l->n);
	}
	late_end(l, err);
}

static void on_interrupt(struct req *req, void *data)
{
	struct late *l = data;

	restoring_cancel(&l->reading);
	reply_err(req, -EINTR);
	free(l);
}

/* Return: whether it waits; if not, nothing has happened yet. */
static bool write_later(struct handle *h, struct req *req, size_t size,
			const struct ctl_order *orders, size_t n, int *ret_err)
{
	struct late *l;
	size_t i = 0;

	while (i < n && orders[i].verb != CTL_RESTORE)
		i++;
	if (h->job || i == n || h->s->on_disk.damaged)
		return false;
	l = calloc(1, sizeof(*l));
	if (!l) {
		*ret_err = -ENOMEM;
		return false;
	}
	*l = (struct late){.reading.done = on_read, .h = h, .req = req, .size = size, .n = n};
	memcpy(l->order, orders, n * sizeof(*orders));
	if (!read_next(l)) {
		free(l);
		return false;
	}
	req_on_interrupt(req, on_interrupt, l); /* may call it at once, and end @l */
	return true;
}

/* What it asks for is done when it is answered, all the same whether it may wait: as with a file on a disk that is read first. */
static void ctl_write(struct handle *h, struct req *req, const void *data, size_t size,
		      uint64_t offset, bool nonblock)
{
	struct ctl_order orders[CTL_VERBS_MAX];
	struct problem why = {0};
	size_t n = 0;
	int e = front_is_gone(h->front) ? -ESTALE : 0;

	(void)offset;
	(void)nonblock;
	if (e == 0)
		e = ctl_parse(data, size, owner_of(h), orders, &n, &why);
	if (e == 0)
		e = audit_may(h->fs, 0, &why);
	if (e < 0 && why.code)
		front_problem(h->front, &why);
	if (e == 0)
		audit_ctl(h->fs, h->front, data, size);
	if (e == 0 && write_later(h, req, size, orders, n, &e))
		return;
	if (e == 0)
		e = do_all(h, orders, n);
	answer(req, e, size);
}

int truncate_handle(struct handle *h, uint64_t size)
{
	(void)h;
	(void)size;
	return 0;
}

const struct handle_ops ctl_ops = {
	.write_late = ctl_write,
	.truncate = truncate_handle,
};

/* ---- of the root ---- */

static void refuse_level(struct fs *fs, const char *text, size_t len)
{
	struct problem p;

	problem_set(&p, PROBLEM_INVALID, "Write error, warning, info or debug.",
		    "\"%s\" is no level of the log", problem_quote_bytes(text, len).text);
	complaint_tell(fs, quota_whose(fs, NULL), &p);
}

/* A log that falls silent says why, before it does. */
static void set_level(struct fs *fs, enum log_level level)
{
	const uid_t whose = quota_whose(fs, NULL);
	const struct complaint *c = complaint_of(fs, whose);
	const bool quieter = level < log_level();

	if (quieter)
		log_info("log level: %s", log_level_str(level));
	vm_log_level(fs->vm, level);
	if (!quieter)
		log_info("log level: %s", log_level_str(level));
	if (c && c->problem.code == PROBLEM_INVALID)
		complaint_tell(fs, whose, &(struct problem){0});
}

static int root_ctl_write(struct handle *h, const void *data, size_t size, uint64_t offset)
{
	const char *text = data;
	struct problem why;
	enum log_level level;
	int e;

	(void)offset;
	while (size && isspace((unsigned char)text[size - 1]))
		size--;
	while (size && isspace((unsigned char)*text)) {
		text++;
		size--;
	}
	if (log_level_parse(text, size, &level) < 0) {
		refuse_level(h->fs, text, size);
		return -EINVAL;
	}
	e = audit_may(h->fs, 0, &why);
	if (e < 0) {
		complaint_tell(h->fs, quota_whose(h->fs, NULL), &why);
		return e;
	}
	audit_ctl(h->fs, NULL, text, size);
	set_level(h->fs, level);
	return 0;
}

const struct handle_ops root_ctl_ops = {
	.write = root_ctl_write,
	.truncate = truncate_handle,
};
