/* SPDX-License-Identifier: Apache-2.0 */
/* Spare interpreters: making and using them. */
#include "spare.h"

#include <stdint.h>
#include <string.h>

#include "agent/core/log.h"
#include "agent/core/proc.h"
#include "agent/core/util.h"

/*
 * Theory of operation
 * -------------------
 * Starting an interpreter and importing what programs usually import takes a second or more on an
 * emulated processor. Users should not have to wait for that after a run that was killed, or that
 * called os._exit(). So there is a spare besides the active interpreter, which has done all that and
 * has not received any code; it replaces the active one as soon as that has ended.
 *
 * A new spare is made when nothing is pending. If the driver can copy its process (DRIVER_CAN_COPY),
 * a third interpreter, the zygote, only exists to be copied: that takes some milliseconds, the
 * copies share their memory, and resets can follow each other quickly. Otherwise a process is
 * started, when the sandbox has been idle for a while.
 *
 * In a jail, where an interpreter starts in milliseconds, and most sandboxes run something once and are gone, there are
 * none before one was needed: two more interpreters would be most of what such a sandbox costs.
 *
 * WARM, which the host sends to a machine before saving its snapshot, makes all of them; so in
 * clones they exist from the start, and share the snapshot's memory. For that reason a spare is
 * exercised like any other interpreter, but gets its new random seed only when it is used: until
 * then its pages stay shared.
 *
 * User code cannot inspect these processes, nor see them in a /proc with hidepid. They have its user
 * id, so it may send them signals: a stopped one is continued when it is needed; a killed one is
 * noticed then, and an interpreter is started as if there had been no spare. The agent does not
 * count them as processes of user code, and does not end them with those (proc_exempt()). The OOM
 * killer chooses them first.
 */

#define START_US      1000000u /* idle for so long, a process may be started */
#define COPY_US	      20000u   /* or copied */
#define RETRY_US      60000000u
#define FAILURES_MAX  3u
#define AVAILABLE_KIB 65536u /* what has to be left for others before one is made */

static bool alive(const struct interp *i)
{
	return i->state != INTERP_NONE && i->state != INTERP_ENDING;
}

static bool ready(const struct interp *i)
{
	return i->state == INTERP_IDLE && i->warm;
}

/* Tells which processes are none of user code. */
static void exempt(const struct spares *all)
{
	proc_exempt(all->spare->pid, all->zygote->pid);
}

static void change_places(struct spares *all, struct interp **one)
{
	struct interp *active = *one;

	*one = all->active;
	all->active = active;
	all->changed(all);
	exempt(all);
}

void spare_fail(struct spares *all, struct interp *i, const char *why)
{
	log_line("the %s interpreter: %s", i == all->zygote ? "zygote" : "spare", why);
	all->failures++;
	interp_kill(i);
}

enum spare_taken spare_take(struct spares *all, bool warming)
{
	struct interp *s = all->spare, *z = all->zygote;

	all->needed = all->begun;
	all->begun = true;
	if (alive(s)) {
		/* A copy that has not come yet is given its rank when it does. */
		if (s->pid)
			interp_set_rank(s, INTERP_ACTIVE);
		else
			interp_hurry(z);
		change_places(all, &all->spare);
	} else if (ready(z)) {
		interp_hurry(z);
		if (interp_copy(z, all->active) < 0) {
			interp_give_up(z);
			return SPARE_NONE;
		}
	} else if (alive(z) && !z->warm && !warming) {
		interp_set_rank(z, INTERP_ACTIVE);
		change_places(all, &all->zygote);
	} else {
		interp_hurry(z);
		return alive(z) ? SPARE_SOON : SPARE_NONE;
	}
	return SPARE_TAKEN;
}

static bool is_wanted(const struct spares *all)
{
	return !all->none && (!all->lazy || all->needed);
}

/* Makes a spare, or what is needed for making one. */
static void spare_make(struct spares *all)
{
	const bool copies = all->active->can_copy;
	struct interp *i = copies ? all->zygote : all->spare;
	const char *step = "copying";
	int r = 0;

	if (all->spare->state != INTERP_NONE || (alive(all->zygote) && !ready(all->zygote)))
		return;
	if (proc_number("/proc/meminfo", "MemAvailable:", 10) < AVAILABLE_KIB) {
		all->failures++;
		return;
	}
	if (copies && ready(all->zygote)) {
		interp_rest(all->zygote);
		r = interp_copy(all->zygote, all->spare);
	} else if (i->state == INTERP_NONE) {
		r = interp_start(i, INTERP_SPARE, &step);
	}
	exempt(all);
	if (r < 0) {
		all->failures++;
		log_line("a spare interpreter: %s: %s", step, strerror(-r));
	}
}

bool spare_warm(struct spares *all)
{
	/* One that has not been used yet, and can be copied, may as well be the zygote. */
	if (is_wanted(all) && all->active->can_copy && !all->active->used &&
	    all->zygote->state == INTERP_NONE && !all->failures) {
		change_places(all, &all->zygote);
		interp_set_rank(all->zygote, INTERP_SPARE);
		return false;
	}
	if (!all->active->warm) {
		if (interp_warm(all->active) < 0)
			interp_give_up(all->active);
		return false;
	}
	if (!is_wanted(all))
		return true;
	if (all->failures < FAILURES_MAX)
		spare_make(all);
	return all->failures >= FAILURES_MAX || ready(all->spare);
}

static void on_spare_timer(struct loop_timer *t)
{
	struct spares *all = container_of(t, struct spares, timer);

	if (all->active->state != INTERP_IDLE || !all->quiet(all))
		return; /* another time */
	if (all->failures >= FAILURES_MAX)
		all->failures = FAILURES_MAX - 1; /* once more */
	spare_make(all);
}

static void exercise(struct interp *i)
{
	if (i->state == INTERP_IDLE && !i->warm && interp_warm(i) < 0)
		interp_give_up(i);
}

void spare_advance(struct spares *all)
{
	uint64_t delay = all->lazy || ready(all->zygote) ? COPY_US : START_US;

	exercise(all->zygote);
	exercise(all->spare);
	if (all->spare->state != INTERP_NONE || all->active->state != INTERP_IDLE ||
	    !is_wanted(all))
		loop_disarm(all->loop, &all->timer);
	else if (!all->timer.armed)
		loop_arm(all->loop, &all->timer, all->failures < FAILURES_MAX ? delay : RETRY_US);
}

void spare_drop(struct spares *all)
{
	interp_kill(all->spare);
	interp_kill(all->zygote);
	all->failures = 0;
	all->begun = all->needed = false;
}

void spare_on_ready(struct spares *all)
{
	exempt(all);
}

void spare_on_done(struct spares *all, struct interp *i, enum driver_type what, int status)
{
	if (status != 0) {
		/* The socket of a copy that was not made has closed. */
		spare_fail(all, i, "it could not do what it was asked");
	} else if (what == DRIVER_WARM) {
		i->warm = true;
		all->failures = 0;
	}
}

void spare_on_death(struct spares *all, struct interp *i, enum interp_state was, int wait_status)
{
	exempt(all);
	if (i->killed)
		return;
	interp_log_end(i == all->zygote ? "the zygote interpreter" : "the spare interpreter", was,
		       wait_status);
	all->failures++;
	/* Copies that never get ready: start from the beginning. */
	if (i == all->spare && all->failures >= FAILURES_MAX)
		interp_kill(all->zygote);
}

void spare_init(struct spares *all)
{
	all->active = &all->slots[0];
	all->spare = &all->slots[1];
	all->zygote = &all->slots[2];
	all->timer.fire = on_spare_timer;
}
