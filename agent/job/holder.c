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

static void say_ended(pid_t pid, int status, const struct rusage *ru)
{
	const struct holder_report r = {
		.news = HOLDER_ENDED,
		.pid = pid,
		.status = status,
		.user_us = timeval_us(&ru->ru_utime),
		.system_us = timeval_us(&ru->ru_stime),
		.maxrss_kib = (uint64_t)ru->ru_maxrss,
	};

	tell(3, &r);
}

static void holder_wait(pid_t program)
{
	struct rusage ru;
	int status;
	pid_t pid;

	while ((pid = wait4(-1, &status, __WALL, &ru)) > 0 || errno == EINTR) {
		if (pid <= 0 || proc_untrace(pid, status))
			continue;
		if (pid == program)
			say_ended(pid, status, &ru);
	}
	_exit(0);
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

int holder_start(const struct spawn *s, pid_t *ret_pid, int *ret_fd)
{
	const pid_t agent = getpid();
	int fds[2];
	pid_t pid;
	int e;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		holder_main(s, fds[1], agent);
	e = pid < 0 ? -errno : 0;
	close(fds[1]);
	if (e == 0 && fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0) {
		e = -errno;
		kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	if (e < 0) {
		close(fds[0]);
		return e;
	}
	*ret_pid = pid;
	*ret_fd = fds[0];
	return 0;
}
