/* SPDX-License-Identifier: Apache-2.0 */
/* Finds where a process is blocked, from what the kernel reports about its main thread. */
#include "rest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/core/log.h"
#include "agent/core/proc.h"
#include "agent/core/util.h"

/*
 * Theory of operation
 * -------------------
 * /proc/PID/syscall shows, for a sleeping thread, its system call, the arguments, the stack pointer
 * and the program counter. The latter two are recorded by the kernel when the thread enters it. A
 * driver waits for all its requests with one instruction at one stack depth; code that is called by
 * the driver and makes the same call itself is deeper in the stack.
 *
 * Reading it needs permission to trace the process, which the agent has in a guest and in a jail.
 * Where it does not (a plain process of an ordinary user, or a host with kernel.yama.ptrace_scope =
 * 3), no place is ever found.
 */

/* Reads a line of /proc/PID/syscall. Return: 0, -EAGAIN if the thread waits in no system call, -EINVAL. */
static int rest_parse(const char *text, struct rest *ret_r)
{
	int end = 0;

	if (strncmp(text, "running", 7) == 0 || strncmp(text, "-1 ", 3) == 0)
		return -EAGAIN;
	if (sscanf(text,
		   "%" SCNu64 " 0x%" SCNx64 " %*x %*x %*x %*x %*x 0x%" SCNx64 " 0x%" SCNx64 "%n",
		   &ret_r->call, &ret_r->fd, &ret_r->sp, &ret_r->pc, &end) != 4)
		return -EINVAL;
	return text[end] == '\n' || text[end] == '\0' ? 0 : -EINVAL;
}

/* Return: as rest_parse(), or -errno. */
static int rest_read(pid_t pid, struct rest *ret_r)
{
	char path[32], buf[256];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	n = proc_text(path, buf, sizeof(buf));
	return n < 0 ? (int)n : rest_parse(buf, ret_r);
}

/* What a driver can wait for requests with. */
static bool is_wait(uint64_t call)
{
	static const long calls[] = {
		SYS_recvmsg,
		SYS_epoll_pwait,
		SYS_epoll_pwait2,
#ifdef SYS_epoll_wait
		SYS_epoll_wait,
#endif
	};

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		if (call == (uint64_t)calls[i])
			return true;
	}
	return false;
}

enum rest_state rest_find(pid_t pid, struct rest *ret_r)
{
	int r = rest_read(pid, ret_r);

	if (r == 0)
		return is_wait(ret_r->call) ? REST_THERE : REST_AWAY;
	if (r == -EAGAIN || r == -ESRCH ||
	    (r == -ENOENT && access("/proc/self/syscall", F_OK) == 0))
		return REST_AWAY;
	log_line("where the interpreter waits is not known: %s", strerror(-r));
	return REST_UNKNOWN;
}

enum rest_state rest_look(pid_t pid, const struct rest *r)
{
	struct rest now = {0};

	if (!r->pc)
		return REST_UNKNOWN;
	if (rest_read(pid, &now) < 0)
		return REST_AWAY;
	return now.call == r->call && now.fd == r->fd && now.sp == r->sp && now.pc == r->pc
		       ? REST_THERE
		       : REST_AWAY;
}
