/* SPDX-License-Identifier: Apache-2.0 */
/* The holder: what its program starts stays below it, however it detaches itself. */
#include "holder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/core/proc_signal.h"
#include "agent/core/util.h"
#include "agent/protocol.h"

/*
 * Theory of operation
 * -------------------
 * A holder is a copy of the agent that does nothing but wait: a subreaper, so that processes whose parents have ended
 * become its children and not the agent's. It says how its program has ended when that has, and ends when it has no
 * children any more. What is to be killed the agent kills: it knows by the tree of processes which those are.
 *
 * It makes system calls only, and takes no lock: another thread of the agent may have held any when it was copied.
 */

static void tell(int fd, const struct holder_report *r)
{
	if (write(fd, r, sizeof(*r)) < 0)
		_exit(1); /* the agent has gone */
}

/* Keeps nothing of the agent's but @fd, which becomes number 3. */
static void drop_all_but(int fd)
{
	if (fd != 3)
		(void)dup3(fd, 3, O_CLOEXEC);
	(void)syscall(SYS_close_range, 4u, ~0u, 0);
	for (int i = 0; i < 3; i++)
		close(i);
}

/* What a process and its children that were waited for have read and written. */
struct io {
	uint64_t read, written;
	uint64_t len; /* of the text that says so, which is read as well */
};

/* The number behind a word. */
static uint64_t count_of(const char *text, const char *word)
{
	const char *at = strstr(text, word);
	uint64_t n = 0;

	if (!at)
		return PROTO_UNKNOWN;
	for (at += strlen(word); *at >= '0' && *at <= '9'; at++)
		n = n * 10 + (uint64_t)(*at - '0');
	return n;
}

static struct io count_own(void)
{
	const int fd = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
	char text[512];
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	n = n < 0 ? 0 : n;
	text[n] = '\0';
	return (struct io){count_of(text, "rchar: "), count_of(text, "wchar: "), (uint64_t)n};
}

/* Between two counts. */
static void io_of(const struct io *before, const struct io *after, struct holder_report *r)
{
	if (!before->len || !after->len)
		return;
	r->read_bytes = after->read - before->read - before->len;
	r->written_bytes = after->written - before->written;
}

static void say_ended(const struct io *before, pid_t pid, int status, const struct rusage *ru)
{
	const struct io after = count_own();
	struct holder_report r = {
		.news = HOLDER_ENDED,
		.pid = pid,
		.status = status,
		.user_us = timeval_us(&ru->ru_utime),
		.system_us = timeval_us(&ru->ru_stime),
		.maxrss_kib = (uint64_t)ru->ru_maxrss,
		.read_bytes = PROTO_UNKNOWN,
		.written_bytes = PROTO_UNKNOWN,
	};

	io_of(before, &after, &r);
	tell(3, &r);
}

static void holder_wait(pid_t program)
{
	struct io before = {0};
	struct rusage ru;
	siginfo_t info;
	int status;
	pid_t pid;

	for (;;) {
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | __WALL) < 0 && errno != EINTR)
			_exit(0);
		/* Whom it waits for, the kernel adds to what is its own. */
		if (info.si_pid == program)
			before = count_own();
		pid = info.si_pid ? wait4(info.si_pid, &status, __WALL, &ru) : 0;
		if (pid <= 0 || proc_untrace(pid, status))
			continue;
		if (pid == program)
			say_ended(&before, pid, status, &ru);
	}
}

static void holder_main(const struct spawn *s, int fd, pid_t agent)
{
	struct holder_report r = {.news = HOLDER_STARTED};
	const char *step = "";
	sigset_t all;
	int e;

	sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)signal(SIGCHLD, SIG_DFL);
	(void)prctl(PR_SET_NAME, "xsbx-job");
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != agent || setsid() < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		_exit(1);
	e = spawn_run(s, &r.pid, &step);
	if (e < 0) {
		r.news = HOLDER_FAILED;
		r.status = -e;
		snprintf(r.step, sizeof(r.step), "%s", step);
	}
	tell(fd, &r);
	if (e < 0)
		_exit(1);
	drop_all_but(fd);
	holder_wait(r.pid);
}

int holder_pipe(int *ret_ours, int *ret_its)
{
	int fds[2], e;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	if (fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0) {
		e = -errno;
		close(fds[0]);
		close(fds[1]);
		return e;
	}
	*ret_ours = fds[0];
	*ret_its = fds[1];
	return 0;
}

int holder_start(const struct spawn *s, int fd, pid_t *ret_pid)
{
	const pid_t agent = getpid();
	const pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0)
		holder_main(s, fd, agent);
	*ret_pid = pid;
	return 0;
}
