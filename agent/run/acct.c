/* SPDX-License-Identifier: Apache-2.0 */
/* Resource usage of a run, from the interpreter's counters in /proc. */
#include "acct.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/core/proc.h"
#include "agent/core/util.h"

static int open_proc(pid_t pid, const char *name, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return open(path, flags | O_CLOEXEC);
}

/* Leaves it as it is if the clock cannot be read. */
static void read_clock(const struct acct *a, uint64_t *own_us)
{
	const uint64_t us = a->clock ? clock_us(a->clock) : 0;

	if (us)
		*own_us = us;
}

/* The counters as they are now, in the fields for acct_begin(). */
static void acct_read(const struct acct *a, struct acct *ret_now)
{
	uint64_t tick = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	struct proc_stat s;
	char buf[1024];

	memset(ret_now, 0, sizeof(*ret_now));
	proc_text_again(a->stat_fd, buf, sizeof(buf));
	if (proc_parse_stat(buf, &s) < 0)
		return;
	ret_now->faults = s.faults;
	ret_now->user_us = s.utime * tick;
	ret_now->system_us = s.stime * tick;
	ret_now->child_user_us = s.cutime * tick;
	ret_now->child_system_us = s.cstime * tick;
	ret_now->own_us = ret_now->user_us + ret_now->system_us;
	read_clock(a, &ret_now->own_us);
}

void acct_init(struct acct *a)
{
	memset(a, 0, sizeof(*a));
	a->stat_fd = a->status_fd = a->clear_fd = -1;
}

void acct_fini(struct acct *a)
{
	close_fd(&a->stat_fd);
	close_fd(&a->status_fd);
	close_fd(&a->clear_fd);
	a->pid = 0;
}

/* The process's memory high-water mark. */
static uint64_t read_maxrss(const struct acct *a)
{
	const char *line;
	char buf[4096];

	proc_text_again(a->status_fd, buf, sizeof(buf));
	line = strstr(buf, "\nVmHWM:");
	return line ? strtoull(line + 7, NULL, 10) : 0;
}

void acct_prepare(struct acct *a, pid_t pid)
{
	struct acct now;

	if (pid != a->pid) {
		acct_fini(a);
		a->pid = pid;
		a->stat_fd = open_proc(pid, "stat", O_RDONLY);
		a->status_fd = open_proc(pid, "status", O_RDONLY);
		a->clear_fd = open_proc(pid, "clear_refs", O_WRONLY);
		if (clock_getcpuclockid(pid, &a->clock) != 0)
			a->clock = 0;
	}
	acct_read(a, &now);
	a->own_us = now.own_us;
	a->user_us = now.user_us;
	a->system_us = now.system_us;
	a->child_user_us = now.child_user_us;
	a->child_system_us = now.child_system_us;
	/* Without CONFIG_PROC_PAGE_MONITOR the mark is that of the process's life. */
	if (a->clear_fd >= 0 && pwrite(a->clear_fd, "5", 1, 0) < 0)
		close_fd(&a->clear_fd);
	a->maxrss_kib = read_maxrss(a);
	acct_read(a, &now);
	a->faults = now.faults;
}

void acct_begin(struct acct *a, pid_t pid)
{
	if (pid != a->pid)
		acct_prepare(a, pid);
	/* Threads may have worked since. The rest only serves to split this, or is rare. */
	read_clock(a, &a->own_us);
}

static uint64_t diff(uint64_t later, uint64_t earlier)
{
	return later > earlier ? later - earlier : 0;
}

/* Splits @total as the ticks were split, or all to the user if there was no tick. */
static void split(uint64_t total, uint64_t user, uint64_t sys, struct acct_cost *cost)
{
	cost->system_us = user + sys ? total * sys / (user + sys) : 0;
	cost->user_us = total - cost->system_us;
}

void acct_end(const struct acct *a, struct acct_cost *ret_cost)
{
	struct acct now;

	acct_read(a, &now);
	split(diff(now.own_us, a->own_us), diff(now.user_us, a->user_us),
	      diff(now.system_us, a->system_us), ret_cost);
	ret_cost->user_us += diff(now.child_user_us, a->child_user_us);
	ret_cost->system_us += diff(now.child_system_us, a->child_system_us);
	/* No page more came in without a fault, and this text is long. */
	ret_cost->maxrss_kib = now.faults == a->faults ? a->maxrss_kib : read_maxrss(a);
}

void acct_end_dead(const struct acct *a, const struct rusage *ru, struct acct_cost *ret_cost)
{
	uint64_t user = diff(timeval_us(&ru->ru_utime), a->user_us + a->child_user_us);
	uint64_t sys = diff(timeval_us(&ru->ru_stime), a->system_us + a->child_system_us);
	uint64_t total = diff(timeval_us(&ru->ru_utime) + timeval_us(&ru->ru_stime),
			      a->own_us + a->child_user_us + a->child_system_us);

	split(total, user, sys, ret_cost);
	ret_cost->maxrss_kib = (uint64_t)ru->ru_maxrss;
}
