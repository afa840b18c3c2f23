/* SPDX-License-Identifier: Apache-2.0 */
/* What a run cost, from the interpreter's counters in /proc. */
#include "acct.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util.h"

/* Reads /proc/PID/@name as text; empty if that fails. */
static void read_proc(pid_t pid, const char *name, char *buf, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	buf[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	n = read(fd, buf, size - 1);
	if (n > 0)
		buf[n] = '\0';
	close(fd);
}

static void acct_read(pid_t pid, struct acct *ret_a)
{
	unsigned long user = 0, sys = 0;
	long child_user = 0, child_sys = 0;
	uint64_t tick = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	char buf[1024];
	const char *after;
	struct timespec ts;
	clockid_t clock;

	memset(ret_a, 0, sizeof(*ret_a));
	read_proc(pid, "stat", buf, sizeof(buf));
	after = strrchr(buf, ')');
	if (!after || sscanf(after + 1,
			     " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld", &user,
			     &sys, &child_user, &child_sys) != 4)
		return;
	ret_a->user_us = user * tick;
	ret_a->system_us = sys * tick;
	ret_a->child_user_us = (uint64_t)child_user * tick;
	ret_a->child_system_us = (uint64_t)child_sys * tick;
	ret_a->own_us = ret_a->user_us + ret_a->system_us;
	if (clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &ts) == 0)
		ret_a->own_us = (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

void acct_begin(pid_t pid, struct acct *ret_a)
{
	char path[64];
	int fd;

	acct_read(pid, ret_a);
	snprintf(path, sizeof(path), "/proc/%d/clear_refs", pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, "5", 1) < 0) {
		/* Without CONFIG_PROC_PAGE_MONITOR the mark is that of the process's life. */
	}
	close(fd);
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

void acct_end(pid_t pid, const struct acct *a, struct acct_cost *ret_cost)
{
	struct acct now;
	char buf[4096];
	const char *line;

	acct_read(pid, &now);
	split(diff(now.own_us, a->own_us), diff(now.user_us, a->user_us),
	      diff(now.system_us, a->system_us), ret_cost);
	ret_cost->user_us += diff(now.child_user_us, a->child_user_us);
	ret_cost->system_us += diff(now.child_system_us, a->child_system_us);
	read_proc(pid, "status", buf, sizeof(buf));
	line = strstr(buf, "\nVmHWM:");
	ret_cost->maxrss_kib = line ? strtoull(line + 7, NULL, 10) : 0;
}

static uint64_t tv_us(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000 + (uint64_t)tv->tv_usec;
}

void acct_end_dead(const struct acct *a, const struct rusage *ru, struct acct_cost *ret_cost)
{
	uint64_t user = diff(tv_us(&ru->ru_utime), a->user_us + a->child_user_us);
	uint64_t sys = diff(tv_us(&ru->ru_stime), a->system_us + a->child_system_us);
	uint64_t total = diff(tv_us(&ru->ru_utime) + tv_us(&ru->ru_stime),
			      a->own_us + a->child_user_us + a->child_system_us);

	split(total, user, sys, ret_cost);
	ret_cost->maxrss_kib = (uint64_t)ru->ru_maxrss;
}
