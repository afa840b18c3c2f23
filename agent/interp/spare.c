/* SPDX-License-Identifier: Apache-2.0 */
/* Interpreters in reserve: when they are made, and what becomes of them. */
#include "spare.h"

#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>

#include "agent/agent.h"
#include "agent/core/log.h"
#include "agent/core/guest_env.h"
#include "agent/core/proc.h"
#include "agent/core/util.h"

/*
 * Theory of operation
 * -------------------
 * Starting an interpreter and importing what programs usually import takes a second or more on an
 * emulated processor. That is nothing to wait for after a run that was killed, or that called
 * os._exit(). So beside the active interpreter there is a spare, which has done all that and has
 * not been given any code; it takes the active one's place as soon as that is gone.
 *
 * A new spare is made when nobody waits for anything. Where the driver can copy its process
 * (DRIVER_CAN_COPY), a third interpreter, the zygote, is there for nothing but being copied: that
 * takes some milliseconds, the copies share their memory, and one reset can follow another at
 * once. Otherwise a process is started, when the sandbox has been idle for a while.
 *
 * WARM, which the host sends to a machine before it takes its snapshot, makes all of them; so in
 * clones they are there from the first moment, and their memory is that of the snapshot. To that
 * end a spare is exercised like any other interpreter, but gets its new randomness only when it is
 * wanted: until then its pages stay shared.
 *
 * User code cannot look into these processes, nor see them in a /proc with hidepid. They have its
 * user id, and so it may send them signals: one that was stopped is continued when it is wanted,
 * one that was killed is missed then, and an interpreter is started as if there had been none. The
 * agent does not count them among the processes of user code, and does not end them along with
 * those (proc_exempt()). When memory runs out the kernel takes them first.
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
static void exempt(const struct agent *a)
{
	proc_exempt(a->spare->pid, a->zygote->pid);
}

static void change_places(struct agent *a, struct interp **one)
{
	struct interp *active = *one;

	*one = a->interp;
	a->interp = a->run.interp = active;
	exempt(a);
}

void spare_fail(struct agent *a, struct interp *i, const char *why)
{
	log_line("the %s interpreter: %s", i == a->zygote ? "zygote" : "spare", why);
	a->spare_failures++;
	interp_kill(i);
}

/* What was ready before a snapshot, or is a copy, has the randomness of others. */
static void reseed(struct agent *a)
{
	if (!a->seed_due)
		a->seed_due = getrandom(a->seed, sizeof(a->seed), 0) == sizeof(a->seed);
}

bool spare_take(struct agent *a)
{
	struct interp *s = a->spare, *z = a->zygote;

	if (alive(s)) {
		/* A copy that has not come yet is given its rank when it does. */
		if (s->pid)
			interp_set_rank(s, INTERP_ACTIVE);
		else
			interp_hurry(z);
		change_places(a, &a->spare);
	} else if (ready(z)) {
		interp_hurry(z);
		if (interp_copy(z, a->interp) < 0) {
			interp_give_up(z);
			return false;
		}
	} else if (alive(z) && !z->warm && !a->warm.due) {
		interp_set_rank(z, INTERP_ACTIVE);
		change_places(a, &a->zygote);
	} else {
		interp_hurry(z);
		return alive(z); /* it soon will be ready */
	}
	reseed(a);
	a->idle_since = now_us();
	return true;
}

/* Makes a spare, or what is needed for making one. */
static void spare_make(struct agent *a)
{
	const bool copies = a->interp->can_copy;
	struct interp *i = copies ? a->zygote : a->spare;
	const char *step = "copying";
	int r = 0;

	if (a->spare->state != INTERP_NONE || (alive(a->zygote) && !ready(a->zygote)))
		return;
	if (proc_number("/proc/meminfo", "MemAvailable:", 10) < AVAILABLE_KIB) {
		a->spare_failures++;
		return;
	}
	if (copies && ready(a->zygote)) {
		interp_rest(a->zygote);
		r = interp_copy(a->zygote, a->spare);
	} else if (i->state == INTERP_NONE) {
		r = interp_start(i, INTERP_SPARE, &step);
	}
	exempt(a);
	if (r < 0) {
		a->spare_failures++;
		log_line("a spare interpreter: %s: %s", step, strerror(-r));
	}
}

bool spare_warm(struct agent *a)
{
	/* One that has not been used yet, and can be copied, may as well be the zygote. */
	if (a->interp->can_copy && !a->interp->used && a->zygote->state == INTERP_NONE &&
	    !a->spare_failures) {
		change_places(a, &a->zygote);
		interp_set_rank(a->zygote, INTERP_SPARE);
		return false;
	}
	if (!a->interp->warm) {
		if (interp_warm(a->interp) < 0)
			interp_give_up(a->interp);
		return false;
	}
	if (a->spare_failures < FAILURES_MAX)
		spare_make(a);
	return a->spare_failures >= FAILURES_MAX || ready(a->spare);
}

static void on_spare_timer(struct loop_timer *t)
{
	struct agent *a = container_of(t, struct agent, spare_timer);

	if (a->interp->state != INTERP_IDLE || a->run.state != RUN_NONE || a->ready.due ||
	    a->warm.due)
		return; /* another time */
	if (a->spare_failures >= FAILURES_MAX)
		a->spare_failures = FAILURES_MAX - 1; /* once more */
	spare_make(a);
}

static void exercise(struct interp *i)
{
	if (i->state == INTERP_IDLE && !i->warm && interp_warm(i) < 0)
		interp_give_up(i);
}

void spare_advance(struct agent *a)
{
	uint64_t delay = ready(a->zygote) ? COPY_US : START_US;

	exercise(a->zygote);
	exercise(a->spare);
	if (a->spare->state != INTERP_NONE || a->interp->state != INTERP_IDLE)
		loop_disarm(&a->loop, &a->spare_timer);
	else if (!a->spare_timer.armed)
		loop_arm(&a->loop, &a->spare_timer,
			 a->spare_failures < FAILURES_MAX ? delay : RETRY_US);
}

void spare_drop(struct agent *a)
{
	interp_kill(a->spare);
	interp_kill(a->zygote);
	a->spare_failures = 0;
}

void spare_on_ready(struct agent *a)
{
	exempt(a);
}

void spare_on_done(struct agent *a, struct interp *i, enum driver_type what, int status)
{
	if (status != 0) {
		/* The socket of a copy that was not made has closed. */
		spare_fail(a, i, "it could not do what it was asked");
	} else if (what == DRIVER_WARM) {
		i->warm = true;
		a->spare_failures = 0;
	}
}

void spare_on_death(struct agent *a, struct interp *i, enum interp_state was, int wait_status)
{
	exempt(a);
	if (i->killed)
		return;
	log_line("the %s interpreter (%s) ended, %s %d", i == a->zygote ? "zygote" : "spare",
		 interp_state_name(was), WIFSIGNALED(wait_status) ? "signal" : "status",
		 WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status));
	a->spare_failures++;
	/* Copies that never get ready: start from the beginning. */
	if (i == a->spare && a->spare_failures >= FAILURES_MAX)
		interp_kill(a->zygote);
}

void spare_init(struct agent *a)
{
	a->spare_timer.fire = on_spare_timer;
}
