/* SPDX-License-Identifier: Apache-2.0 */
/* The `ctl` nodes: what is written to a session's or a job's is done; the root's says what is logged. */
#include "nodes.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>

#include "fs/session/changes.h"
#include "fs/session/fs.h"
#include "fs/session/job.h"
#include "fs/session/pause.h"
#include "fs/session/quota.h"
#include "fs/session/session.h"
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

static int ctl_write(struct handle *h, const void *data, size_t size, uint64_t offset)
{
	struct ctl_order orders[CTL_VERBS_MAX];
	struct problem why = {0};
	size_t n = 0;
	int e;

	(void)offset;
	if (front_is_gone(h->front))
		return -ESTALE;
	e = ctl_parse(data, size, owner_of(h), orders, &n, &why);
	if (e < 0) {
		front_problem(h->front, &why);
		return e;
	}
	for (size_t i = 0; i < n && e == 0; i++)
		e = h->job ? do_job(h->job, &orders[i]) : do_session(h->s, &orders[i]);
	return e;
}

int truncate_handle(struct handle *h, uint64_t size)
{
	(void)h;
	(void)size;
	return 0;
}

const struct handle_ops ctl_ops = {
	.write = ctl_write,
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
	enum log_level level;

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
	set_level(h->fs, level);
	return 0;
}

const struct handle_ops root_ctl_ops = {
	.write = root_ctl_write,
	.truncate = truncate_handle,
};
