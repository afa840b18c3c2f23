/* SPDX-License-Identifier: Apache-2.0 */
/* Paused sandboxes: the verbs `pause` and `resume`, and pausing during a commit. */
#include "pause.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "session.h"
#include "touch.h"

static int freeze(struct session *s)
{
	const int e = sandbox_freeze(s->sandbox);

	if (e == 0)
		s->pause.state = PAUSE_ASKED;
	return e;
}

static void thaw(struct session *s)
{
	s->pause.state = PAUSE_NONE;
	if (s->sandbox)
		sandbox_thaw(s->sandbox);
}

int pause_begin(struct session *s)
{
	struct pause *p = &s->pause;
	struct problem why;
	int e = 0;

	if (p->asked)
		return 0;
	if (s->state != SESSION_IDLE || s->active || s->nqueued || s->changes.committing) {
		session_problemf(s, PROBLEM_BUSY, session_idle_fix(s),
				 "only an idle session can be paused");
		return -EBUSY;
	}
	if (s->saving.going) {
		e = saving_refuse(s, &why);
		session_problem(s, &why);
		return e;
	}
	if (s->jobs_going) {
		session_problemf(s, PROBLEM_BUSY, "Wait until they have ended, or remove them.",
				 "%u job%s of the session go%s on", s->jobs_going,
				 s->jobs_going == 1 ? "" : "s", s->jobs_going == 1 ? "es" : "");
		return -EBUSY;
	}
	e = freeze(s);
	if (e < 0) {
		session_problemf(s, PROBLEM_BUSY, "Try it again.",
				 "the session can't be paused: %s", strerror(-e));
		return e;
	}
	p->asked = true;
	return 0;
}

int pause_end(struct session *s)
{
	struct pause *p = &s->pause;

	if (!p->asked || s->changes.committing) {
		session_problemf(s, PROBLEM_NOT_PAUSED, "",
				 p->asked ? "changes are being taken over"
					  : "the session is not paused");
		return p->asked ? -EBUSY : -EINVAL;
	}
	p->asked = false;
	thaw(s);
	session_used(s);
	if (s->state == SESSION_PAUSED)
		session_set_state(s, SESSION_IDLE);
	return 0;
}

int pause_until_still(struct session *s, void (*still)(struct session *s, int err))
{
	struct pause *p = &s->pause;
	int e = 0;

	if (p->state == PAUSE_ASKED || (s->sandbox && !s->ready))
		return -EBUSY;
	if (s->sandbox) /* also if it is paused: checks that nothing has run since */
		e = freeze(s);
	if (e < 0)
		return e;
	touch_session(s);
	p->still = still;
	if (p->state != PAUSE_ASKED)
		still(s, 0);
	return 0;
}

void pause_still_over(struct session *s)
{
	struct pause *p = &s->pause;

	if (!p->still)
		return;
	touch_session(s);
	p->still = NULL;
	if (!p->asked && p->state != PAUSE_NONE)
		thaw(s);
}

static const char *words(int err)
{
	switch (-err) {
	case EBUSY: return "it waits for a disk, or gets too little of this host's processors";
	case ECANCELED: return "something ran although it was paused";
	default: return strerror(-err);
	}
}

void pause_answered(struct session *s, int err)
{
	struct pause *p = &s->pause;
	/* It was being saved, and something in it has run. */
	const bool lost = p->state == PAUSE_STILL && !p->still && err < 0;

	if (p->state != PAUSE_ASKED && !lost)
		return; /* it is no longer wanted */
	touch_session(s);
	p->state = err < 0 ? PAUSE_NONE : PAUSE_STILL;
	if (p->still) {
		if (err < 0 && p->asked) {
			p->asked = false;
			session_set_state(s, SESSION_IDLE);
		}
		p->still(s, err);
	} else if (err < 0) {
		p->asked = false;
		session_problemf(s, PROBLEM_NOT_PAUSED, "Try it again, or reset the session.",
				 "what runs in the sandbox could not be stopped%s: %s",
				 lost ? " again while it was saved" : "", words(err));
		if (s->state == SESSION_PAUSED)
			session_set_state(s, SESSION_IDLE);
	} else {
		session_set_state(s, SESSION_PAUSED);
	}
}

void pause_void(struct session *s)
{
	struct pause *p = &s->pause;
	const bool awaited = p->still && p->state == PAUSE_ASKED;

	touch_session(s);
	*p = (struct pause){.still = p->still};
	if (awaited)
		p->still(s, 0); /* everything in it is being killed */
}

int pause_may(const struct session *s, const struct vm_file *rq)
{
	return s->changes.committing && vm_file_changes(rq) ? -EBUSY : 0;
}
