/* SPDX-License-Identifier: Apache-2.0 */
/* Leases. See lease.h. */
#include "lease.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "agent.h"
#include "agent/core/guest_env.h"
#include "agent/core/log.h"
#include "agent/core/proc.h"
#include "agent/core/util.h"

#define LOOK_US	  125u /* doubled each time */
#define LOOKS_MAX 9u   /* 64 ms in all */

/* Is the working directory nobody else's, and can nobody else have got a file that is open there? */
static bool is_own(const struct agent *a)
{
	return !a->env->store && !a->env->nwrite;
}

bool lease_is_settled(const struct agent *a)
{
	/* What is done once a run has ended makes its interpreter move once more. */
	if (a->freezer.state != FREEZER_THAWED || a->run.state != RUN_NONE || a->run.settle.armed ||
	    jobs_active(&a->jobs) || a->sweeper.active || a->hello.due || a->ready.due ||
	    a->warm.due || a->seeding || a->restart || a->unpacker.state != UNPACK_NONE)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(a->spares.slots); i++) {
		const enum interp_state state = a->spares.slots[i].state;

		if (state != INTERP_NONE && state != INTERP_IDLE)
			return false;
	}
	return true;
}

/* Is there a signal that would have it do something? */
static bool catches_signals(const struct interp *i)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)i->pid);
	return proc_number(path, "SigCgt:", 16) != 0;
}

/* What user code is about. */
enum calm {
	CALM_NOT,
	CALM_SOON, /* an interpreter that has answered is still on the way back to where it waits */
	CALM_YES,
};

/* Has it executed what may have left something behind? */
static bool is_suspect(const struct interp *i)
{
	return i->state != INTERP_NONE && i->touched;
}

/* Will it do nothing until it is sent something? That is so if its wait has begun since it was known that nobody else is
 * there, see lease.h. */
static enum calm calm_of(const struct interp *i)
{
	struct proc_stat st;
	char path[48];

	if (!is_suspect(i))
		return CALM_YES;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)i->pid);
	if (proc_read_stat(path, &st) < 0 || st.threads != 1)
		return CALM_NOT;
	if (catches_signals(i))
		return CALM_NOT;
	if (interp_unread(i)) /* this first: then it waits anew */
		return CALM_SOON;
	switch (rest_look(&i->rest)) {
	case REST_AWAY: return CALM_SOON;
	case REST_THERE: return rest_lasts(i->pid, &i->rest, i->peer) ? CALM_YES : CALM_NOT;
	case REST_UNKNOWN: break;
	}
	return CALM_NOT;
}

static bool only_interpreters(const struct agent *a, const struct proc_set *set)
{
	for (size_t n = 0; n < set->n; n++) {
		bool known = !set->v[n].live;

		for (size_t i = 0; !known && i < ARRAY_SIZE(a->spares.slots); i++)
			known = a->spares.slots[i].pid == set->v[n].pid;
		if (!known)
			return false;
	}
	return true;
}

static enum calm calm_of_all(const struct spares *all)
{
	enum calm calm = CALM_YES;

	for (size_t i = 0; calm == CALM_YES && i < ARRAY_SIZE(all->slots); i++)
		calm = calm_of(&all->slots[i]);
	return calm;
}

/* Are there processes but the interpreters? The fast way mostly finds one, if there is one; that there is none, only
 * the other tells. */
static bool are_alone(const struct agent *a)
{
	struct proc_set set = {0};
	const bool alone = proc_children(&set) == 0 && only_interpreters(a, &set) &&
			   proc_scan(&set) == 0 && only_interpreters(a, &set);

	proc_set_clear(&set);
	return alone;
}

/* The first look: is there nobody but interpreters, and do they seem to wait? */
static enum calm look(struct agent *a)
{
	enum calm calm;

	a->newest = proc_last_pid();
	calm = is_own(a) ? calm_of_all(&a->spares) : CALM_NOT;
	return calm == CALM_YES && !are_alone(a) ? CALM_NOT : calm;
}

/* The second, after a nudge: can nothing in the sandbox change a file? */
static enum calm look_again(struct agent *a)
{
	const enum calm calm = calm_of_all(&a->spares);

	if (!proc_forked_since(a->newest))
		return calm;
	a->nudged = false; /* from the beginning */
	return CALM_SOON;
}

/* Has all that may have been tampered with wait anew. Return: CALM_SOON, or CALM_YES if there is none. */
static enum calm nudge(struct agent *a)
{
	enum calm calm = CALM_YES;

	for (size_t i = 0; i < ARRAY_SIZE(a->spares.slots); i++) {
		struct interp *one = &a->spares.slots[i];

		if (!is_suspect(one))
			continue;
		calm = CALM_SOON;
		if (!interp_nudge(one))
			return CALM_NOT;
	}
	return calm;
}

static void answer(struct agent *a, bool yes)
{
	struct frame *f = frame_new(PROTO_LEASED, a->lease.id, 4);

	a->lease.due = false;
	if (!f)
		return;
	put_u32(&f->out, yes);
	conn_send(&a->conn, f);
	a->files.leased = yes;
}

/* agent_advance() goes on. */
static void on_look(struct loop_timer *t)
{
	(void)t;
}

void lease_ask(struct agent *a, uint32_t id)
{
	a->lease = (struct debt){true, id};
	a->looks = 0;
	a->nudged = false;
}

void lease_drop(struct agent *a)
{
	a->files.leased = a->lease.due = false;
}

/* Answers, or looks again a little later. */
static void advance_question(struct agent *a)
{
	enum calm calm = a->nudged ? look_again(a) : look(a);

	if (calm == CALM_YES && !a->nudged) {
		a->nudged = true;
		calm = nudge(a);
		if (calm == CALM_YES)
			calm = look_again(a);
	}
	if (calm == CALM_SOON && a->looks < LOOKS_MAX) {
		a->look.fire = on_look;
		loop_arm(&a->loop, &a->look, LOOK_US << a->looks++);
	} else {
		answer(a, calm == CALM_YES);
	}
}

void lease_advance(struct agent *a)
{
	struct frame *f;

	if (a->files.leased && !lease_is_settled(a)) {
		a->files.leased = false;
		f = frame_new(PROTO_UNLEASED, 0, 0);
		if (f)
			conn_send(&a->conn, f);
		else
			loop_stop(&a->loop, -ENOMEM); /* the host must not go on believing it */
	}
	if (a->lease.due && !a->look.armed && lease_is_settled(a))
		advance_question(a);
}
