/* SPDX-License-Identifier: Apache-2.0 */
/* The `ctl` nodes: what is written to a session's is done; the root's says what is logged. */
#include "nodes.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>

#include "fs/session/changes.h"
#include "fs/session/fs.h"
#include "fs/session/pause.h"
#include "fs/session/quota.h"
#include "fs/session/session.h"
#include "vm/base/log.h"
#include "ctl.h"

static int run_verb(struct session *s, enum ctl_verb verb)
{
	switch (verb) {
	case CTL_INTERRUPT: return session_interrupt(s);
	case CTL_KILL: return session_kill(s);
	case CTL_RESET: return session_reset(s);
	case CTL_CLOSE: return session_close(s);
	case CTL_COMMIT: return commit_begin(s);
	case CTL_DISCARD: return commit_discard(s);
	case CTL_PAUSE: return pause_begin(s);
	case CTL_RESUME: return session_resume(s);
	case CTL_NVERBS: break;
	}
	assert(0);
	return -EINVAL;
}

static int ctl_write(struct handle *h, const void *data, size_t size, uint64_t offset)
{
	enum ctl_verb verbs[CTL_VERBS_MAX];
	struct problem why = {0};
	size_t n = 0;
	int e;

	(void)offset;
	if (h->s->dead)
		return -ESTALE;
	e = ctl_parse(data, size, verbs, &n, &why);
	if (e < 0) {
		session_problem(h->s, &why);
		return e;
	}
	for (size_t i = 0; i < n && e == 0; i++)
		e = run_verb(h->s, verbs[i]);
	return e;
}

/* What counts is what is written next. */
static int truncate_nothing(struct handle *h, uint64_t size)
{
	(void)h;
	(void)size;
	return 0;
}

const struct handle_ops ctl_ops = {
	.write = ctl_write,
	.truncate = truncate_nothing,
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
	.truncate = truncate_nothing,
};
