/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes of a daemon before this one. See inherit.h. */
#include "inherit.h"

#include <errno.h>
#include <stdlib.h>

#include "binding.h"
#include "fs.h"
#include "session.h"

int inherit_sandbox(struct session *s, struct record_reader fields, struct fdbag *fds)
{
	struct binding *b = s->ready && !s->sandbox ? calloc(1, sizeof(*b)) : NULL;
	int r;

	if (!b)
		return s->ready && !s->sandbox ? -ENOMEM : -EBADMSG;
	b->s = s;
	r = sandbox_adopt(s->fs->vm, &fields, fds, &binding_events, b, &s->sandbox);
	if (r < 0) {
		free(b);
		s->sandbox = NULL;
		return r;
	}
	s->binding = b;
	return 0;
}

static void lost(struct session *s)
{
	static const struct problem why = {.code = PROBLEM_AGENT_LOST,
					   .cause = "the sandbox was not there any more when "
						    "another daemon took the mount over",
					   .fix = "echo reset > ctl gives the session a new one."};

	binding_lost(s, &why);
}

static void go_on(struct session *s)
{
	if (s->sandbox)
		network_resume(s);
	binding_pump(s);
}

void inherit_go(struct session *s)
{
	const bool up = s->state == SESSION_STARTING || s->state == SESSION_IDLE ||
			s->state == SESSION_RUNNING || s->state == SESSION_PAUSED;

	if (s->dead)
		return;
	commit_resume(s);
	if (up && s->ready && !s->sandbox)
		lost(s);
	else if (up && !s->sandbox)
		(void)binding_start(s); /* its `error` says why not */
	else
		go_on(s);
}
