/* SPDX-License-Identifier: Apache-2.0 */
/* Stops all user code for a while, so that its files can be examined. */
#include "freezer.h"

#include <errno.h>

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
 * A thread that stays in the kernel for long can't be waited for: then all continue, and the answer is EBUSY.
 *
 * Who is to continue is noted when all are stopped. To look for them again would be a large part of what a copy of a machine
 * takes before it answers: it begins frozen, and on an emulated processor each instruction is new to it.
 */

#define ROUND_US 1000u
#define SLOW_US	 10000u
#define GIVE_UP	 2000000u

static void on_round(struct loop_timer *t)
{
	struct freezer *f = container_of(t, struct freezer, timer);
	const uint64_t now = now_us();
	const pid_t newest = proc_last_pid();
	int running = proc_running(true);

	if (running == 0 && proc_forked_since(newest)) {
		int fds[PROC_CHASED];

		proc_chase(fds);
		for (size_t i = 0; i < PROC_CHASED; i++)
			close_fd(&fds[i]);
		running = 1;
	}

	f->clean = running == 0 ? f->clean + 1 : 0;
	if (f->clean >= 2 && proc_switches(&f->switches) == 0 && proc_running(true) == 0) {
		f->state = FREEZER_FROZEN;
		if (proc_scan(&f->all) < 0)
			f->all.n = 0;
		f->done(f, 0);
	} else if (running < 0 || now > f->until) {
		log_line("%d processes could not be stopped", running);
		freezer_thaw(f);
		f->done(f, running < 0 ? running : -EBUSY);
	} else {
		loop_arm(f->loop, &f->timer,
			 now + GIVE_UP - f->until < 50000u ? ROUND_US : SLOW_US);
	}
}

int freezer_start(struct freezer *f)
{
	const int r = proc_scan_stopped(&f->before);

	if (r < 0) {
		proc_set_clear(&f->before);
		return r;
	}
	f->state = FREEZER_FREEZING;
	f->until = now_us() + GIVE_UP;
	f->clean = 0;
	f->timer.fire = on_round;
	loop_arm(f->loop, &f->timer, 0);
	return 0;
}

int freezer_check(const struct freezer *f)
{
	/* A switch is counted where it ends: not yet of what is at it. */
	int r = proc_running(false);
	uint64_t now;

	if (r == 0)
		r = proc_switches(&now);
	if (r < 0)
		return r;
	return r == 0 && now == f->switches ? 0 : -ECANCELED;
}

void freezer_thaw(struct freezer *f)
{
	if (f->state == FREEZER_THAWED)
		return;
	f->state = FREEZER_THAWED;
	loop_disarm(f->loop, &f->timer);
	if (f->all.n)
		proc_continue(&f->all, &f->before);
	else
		proc_continue_except(&f->before);
	proc_set_clear(&f->before);
	proc_set_clear(&f->all);
}
