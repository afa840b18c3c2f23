/* SPDX-License-Identifier: Apache-2.0 */
/* The `ctl` node: executes the verbs written to it. */
#include "ctl_node.h"

#include <assert.h>
#include <errno.h>

#include "fs/session/commit.h"
#include "fs/session/pause.h"
#include "fs/session/session.h"
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

static int ctl_truncate(struct handle *h, uint64_t size)
{
	(void)h;
	(void)size;
	return 0;
}

const struct handle_ops ctl_ops = {
	.write = ctl_write,
	.truncate = ctl_truncate,
};
