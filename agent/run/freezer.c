/* SPDX-License-Identifier: Apache-2.0 */
/* Stops all user code for a while, so that its files can be examined. */
#include "freezer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/log.h"
#include "agent/core/proc_signal.h"
#include "agent/core/util.h"

/*
 * Theory of operation
 * -------------------
 * SIGSTOP can be neither caught nor blocked. A pending signal restarts fork(2), so a process that was sent
 * SIGSTOP has no unknown child: if two consecutive scans find every thread of every process stopped, and
 * nothing was forked in between, they have seen all processes. A process that forks and exits at once is
 * never found by a scan, and has to be chased. Only SIGCONT wakes a stopped process. No process is left
 * that could send it, but code can prepare a kernel timer that does. So whoever relies on the freeze has
 * to check afterwards that nothing has run in the meantime.
 *
 * A thread that stays in the kernel for long can't be waited for: then all continue, and the answer is EBUSY. Who was in the way
 * most of the time is known then, for each round has looked who ran first, and so is why: by where it was, and by whether it ran on
 * from one round to the next. One that waits for a processor to stop on does not, and load is to blame for that.
 *
 * Scans are what a freeze takes. In a machine, where no process is hidden and no fork unnoticed, two are enough: nothing ran
 * in the first, and the second finds the same; elsewhere there is one more.
 *
 * Who is to continue is noted when all are stopped. To look for them again would be a large part of what a copy of a machine
 * takes before it answers: it begins frozen, and on an emulated processor each instruction is new to it.
 */

#define ROUND_US 1000u
#define SLOW_US	 10000u
#define GIVE_UP	 2000000u
#define QUICK	 50000u /* of it: rounds come quickly, and nothing is made of what is in their way */
#define MET_MIN	 10u	/* rounds in which it was found so: it is not just late */

/* Looks once more, at all processes, and whether they have run in between. Return: how many run, or -errno. */
static int look_again(struct freezer *f, pid_t newest)
{
	const int r = proc_scan(&f->all);
	unsigned running;

	if (r < 0)
		return r;
	running = proc_running(&f->all, &f->before, &f->first);
	if (running == 0) {
		/* A switch is counted where it ends: not yet of what is at it. */
		f->switches = proc_switches(&f->all);
		running = proc_running(&f->all, &f->before, &f->first) + proc_forked_since(newest);
	}
	return (int)running;
}

/* Return: how many run, or -errno. */
static int look(struct freezer *f, pid_t newest)
{
	int fds[PROC_CHASED];
	const int r = proc_scan(&f->all);

	if (r < 0)
		return r;
	if (proc_running(&f->all, &f->before, &f->first) > 0)
		return 1;
	if (!proc_forked_since(newest))
		return 0;
	proc_chase(fds);
	for (size_t i = 0; i < PROC_CHASED; i++)
		close_fd(&fds[i]);
	return 1;
}

/* Most of the time is more than half of it: each meeting with another one takes one away. */
static void meet(struct obstacle *o, const struct proc_runner *r)
{
	if (!r->pid) {
		o->of_no++;
		return;
	}
	if (r->pid == o->who.pid && r->start == o->who.start) {
		o->met++;
		o->ran += r->state && r->switches != o->who.switches;
	} else if (o->met > 0) {
		o->met--;
		return;
	} else {
		*o = (struct obstacle){.met = 1, .of_no = o->of_no};
	}
	o->who = *r;
	o->waits += r->state == 'D';
}

static void judge(struct obstacle *o)
{
	char path[32];
	ssize_t n;

	if (o->of_no > o->met) {
		o->why = PROTO_UNSTOPPED_NEW;
		o->who.pid = 0;
		return;
	}
	if (!o->who.pid)
		return;
	if (!o->who.state)
		o->why = PROTO_UNSTOPPED_HIDDEN;
	else if (o->waits >= MET_MIN && o->waits >= o->met / 2)
		o->why = PROTO_UNSTOPPED_WAITS;
	else if (o->ran >= MET_MIN)
		o->why = PROTO_UNSTOPPED_WOKEN;
	snprintf(path, sizeof(path), "/proc/%d/comm", o->who.pid);
	n = proc_text(path, o->name, sizeof(o->name));
	o->name[n > 0 ? n : 0] = '\0';
	o->name[strcspn(o->name, "\n")] = '\0';
}

static void gives_up(struct freezer *f, int running)
{
	if (running >= 0)
		judge(&f->obstacle);
	log_line("%d processes could not be stopped", running);
	freezer_thaw(f);
	f->done(f, running < 0 ? running : -EBUSY);
}

static void on_round(struct loop_timer *t)
{
	struct freezer *f = container_of(t, struct freezer, timer);
	const uint64_t now = now_us();
	const pid_t newest = proc_last_pid();
	int running;
	bool quick = now + GIVE_UP - f->until < QUICK, frozen = false;

	f->first = (struct proc_runner){0};
	running = look(f, newest);
	f->clean = running == 0 ? f->clean + 1 : 0;
	if (f->clean >= (proc_is_whole() ? 1u : 2u)) {
		running = look_again(f, newest);
		frozen = running == 0;
		f->clean = 0;
	}
	if (frozen) {
		f->state = FREEZER_FROZEN;
		f->done(f, 0);
		return;
	}
	if (running > 0 && !quick)
		meet(&f->obstacle, &f->first);
	if (running < 0 || now > f->until)
		gives_up(f, running);
	else
		loop_arm(f->loop, &f->timer, quick ? ROUND_US : SLOW_US);
}

int freezer_start(struct freezer *f)
{
	const int r = proc_scan(&f->before);

	if (r < 0) {
		proc_set_clear(&f->before);
		return r;
	}
	proc_keep_stopped(&f->before);
	f->state = FREEZER_FREEZING;
	f->until = now_us() + GIVE_UP;
	f->clean = 0;
	f->obstacle = (struct obstacle){0};
	f->timer.fire = on_round;
	loop_arm(f->loop, &f->timer, 0);
	return 0;
}

int freezer_check(const struct freezer *f)
{
	/* Whoever is new has a parent that ran. A switch is counted where it ends: not yet of what is at it. */
	return proc_running(&f->all, NULL, NULL) == 0 && proc_switches(&f->all) == f->switches
		       ? 0
		       : -ECANCELED;
}

void freezer_thaw(struct freezer *f)
{
	const bool known = f->state == FREEZER_FROZEN;

	if (f->state == FREEZER_THAWED)
		return;
	f->state = FREEZER_THAWED;
	loop_disarm(f->loop, &f->timer);
	if (known)
		proc_continue(&f->all, &f->before);
	else
		proc_continue_except(&f->before);
	proc_set_clear(&f->before);
	proc_set_clear(&f->all);
}
