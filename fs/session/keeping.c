/* SPDX-License-Identifier: Apache-2.0 */
/* What sessions tell whoever keeps them. See keeping.h. */
#include "keeping.h"

#include <errno.h>
#include <string.h>

#include "fs.h"
#include "session.h"
#include "vm/base/problem.h"

#define CAUSE                                                                           \
	"what there is of the session can't be written to state_dir, and would not be " \
	"there at the next mount: "

bool keeping_is_problem(const struct problem *p)
{
	return p->code == PROBLEM_NOT_KEPT && strncmp(p->cause, CAUSE, strlen(CAUSE)) == 0;
}

bool keeping_problem(const struct session *s, struct problem *ret_p)
{
	if (!s->on_disk.err)
		return false;
	problem_set(ret_p, PROBLEM_NOT_KEPT,
		    s->on_disk.err == -EFBIG
			    ? "Remove some of its runs and jobs, those with long inputs first."
			    : "Make room on the disk of state_dir, or mend it; it is tried again.",
		    CAUSE "%s", strerror(-s->on_disk.err));
	return true;
}

void keeping_changed(struct session *s)
{
	if (s->fs->keeping && !s->dead)
		s->fs->keeping->changed(s);
}

void keeping_saved(struct session *s)
{
	if (s->fs->keeping && !s->dead)
		s->fs->keeping->saved(s);
}

void keeping_removed(struct session *s)
{
	if (s->fs->keeping)
		s->fs->keeping->removed(s);
}
