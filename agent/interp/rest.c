/* SPDX-License-Identifier: Apache-2.0 */
/* Finds where a process is blocked, from what the kernel reports about its main thread. */
#include "rest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
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
 *
 * The number of a descriptor says little about what is waited for: user code may put another socket in that place,
 * or give the driver's own a limit of time (SO_RCVTIMEO), or a filter that drops what is sent to it. With the same
 * permission the socket itself can be had (pidfd_getfd(2)) and asked. The answer is about calls that begin from then
 * on; for what is under way it is of use only if nobody could have changed things since it began (lease.c).
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
static int rest_read(struct rest *r)
{
	char buf[256];
	const ssize_t n = pread(r->file, buf, sizeof(buf) - 1, 0);

	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return rest_parse(buf, r);
}

/* Return: 0 or -errno. */
static int rest_open(pid_t pid, struct rest *r)
{
	char path[32];

	if (r->file >= 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	r->file = open(path, O_RDONLY | O_CLOEXEC);
	return r->file < 0 ? -errno : 0;
}

void rest_forget(struct rest *r)
{
	close_fd(&r->file);
	*r = (struct rest){.file = -1};
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
	int r = rest_open(pid, ret_r);

	if (r == 0)
		r = rest_read(ret_r);
	if (r == 0)
		return is_wait(ret_r->call) ? REST_THERE : REST_AWAY;
	if (r == -EAGAIN || r == -ESRCH ||
	    (r == -ENOENT && access("/proc/self/syscall", F_OK) == 0))
		return REST_AWAY;
	log_line("where the interpreter waits is not known: %s", strerror(-r));
	return REST_UNKNOWN;
}

enum rest_state rest_look(const struct rest *r)
{
	struct rest now = {.file = r->file};

	if (!r->pc)
		return REST_UNKNOWN;
	if (rest_read(&now) < 0)
		return REST_AWAY;
	return now.call == r->call && now.fd == r->fd && now.sp == r->sp && now.pc == r->pc
		       ? REST_THERE
		       : REST_AWAY;
}

uint64_t rest_socket(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) == 0 ? cookie : 0;
}

/* Is there neither a limit of time nor a filter? */
static bool is_plain(int fd)
{
	struct timeval limit = {.tv_sec = 1};
	socklen_t len = sizeof(limit), filter = 0;

	return getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, &len) == 0 && limit.tv_sec == 0 &&
	       limit.tv_usec == 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, NULL, &filter) == 0 && filter == 0;
}

bool rest_lasts(pid_t pid, const struct rest *r, uint64_t socket)
{
	_cleanup_close_ int pidfd = -1, fd = -1;

	if (r->call != SYS_recvmsg || !socket)
		return false;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd >= 0)
		fd = (int)syscall(SYS_pidfd_getfd, pidfd, (int)r->fd, 0);
	return fd >= 0 && rest_socket(fd) == socket && is_plain(fd);
}
