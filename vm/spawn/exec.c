/* SPDX-License-Identifier: Apache-2.0 */
/* Between fork and exec: what the spawner's children do before they run their program. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "vm/host/kvm.h"
#include "server.h"
#include "vm/task/overlay_diff.h"
#include "vm/base/util.h"

__attribute__((noreturn)) static void child_fail(int status_fd, enum spawn_step step)
{
	const struct spawn_error e = {.step = step, .error = -errno};

	(void)!write(status_fd, &e, sizeof(e));
	_exit(127);
}

/* By the bare system call, because the C library keeps two signals to itself and refuses to touch
 * them, even where whoever started the daemon had them ignored. */
static void child_reset_signals(void)
{
	static const char dfl[64]; /* the kernel's struct sigaction, SIG_DFL */
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		(void)syscall(SYS_rt_sigaction, sig, dfl, NULL, (size_t)(NSIG - 1) / 8);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Puts each descriptor at its number and closes all others; only @status_fd stays till exec. What
 * is not given is the spawner's own /dev/null, which it has as its standard input. To open it here
 * would be to keep the copy of the host's mounts alive that a jail's child is born with, with all
 * that was mounted below.
 * Return: the new number of @status_fd. */
static int child_descriptors(const struct spawn_job *job, int status_fd)
{
	int high[SPAWN_FDS_MAX], status = fcntl(status_fd, F_DUPFD_CLOEXEC, JAIL_FDS_MAX);
	bool used[JAIL_FDS_MAX] = {false};
	int null = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, JAIL_FDS_MAX);

	if (status < 0 || null < 0)
		child_fail(status_fd, SPAWN_STEP_DESCRIPTORS);
	for (size_t i = 0; i < job->ntargets; i++) {
		high[i] = fcntl(job->fds[job->target[i].from], F_DUPFD_CLOEXEC, JAIL_FDS_MAX);
		if (high[i] < 0)
			child_fail(status, SPAWN_STEP_DESCRIPTORS);
	}
	for (size_t i = 0; i < job->ntargets; i++) {
		if (dup2(high[i], job->target[i].to) < 0)
			child_fail(status, SPAWN_STEP_DESCRIPTORS);
		used[job->target[i].to] = true;
	}
	for (int fd = 0; fd < JAIL_FDS_MAX; fd++) {
		if (used[fd])
			continue;
		if (fd > STDERR_FILENO)
			close(fd);
		else if (dup2(null, fd) < 0)
			child_fail(status, SPAWN_STEP_DESCRIPTORS);
	}
	if (close_range(JAIL_FDS_MAX, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		child_fail(status, SPAWN_STEP_DESCRIPTORS);
	return status;
}

/* PDEATHSIG comes too late for a parent that is gone already. It has the only reading end of the
 * status pipe, so writing would then be an error. */
static void child_die_with_parent(int status_fd)
{
	struct pollfd p = {.fd = status_fd, .events = POLLOUT};

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		child_fail(status_fd, SPAWN_STEP_PDEATHSIG);
	if (poll(&p, 1, 0) < 0 || (p.revents & POLLERR))
		_exit(127);
}

static void child_oom_first(void)
{
	_cleanup_close_ int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	/* A wish, not a condition: without it the kernel picks by size, which is often the same. */
	if (fd >= 0)
		(void)!write(fd, "500", 3);
}

__attribute__((noreturn)) static void child_fail_jail(int status_fd, const struct jail_fault *fault)
{
	const struct spawn_error e = {
		.step = SPAWN_STEP_JAIL, .error = fault->error, .fault = *fault};

	(void)!write(status_fd, &e, sizeof(e));
	_exit(127);
}

/* Behind the walls; the error has not been said yet. */
static void child_jail(const struct spawn_job *job, int status_fd, struct jail_cell *cell, int go)
{
	struct jail_fault fault;

	if (jail_enter(job->jail, cell, go, child_die_with_parent, status_fd, &fault) < 0)
		child_fail_jail(status_fd, &fault);
}

/* Descriptors below 32 will be arranged. */
static int child_keep(int fd, int status_fd)
{
	int high = fd < 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, JAIL_FDS_MAX);

	if (fd >= 0 && high < 0)
		child_fail(status_fd, SPAWN_STEP_DESCRIPTORS);
	return high;
}

void spawner_exec(const struct spawn_job *job, int status_fd, struct jail_cell *cell, int go)
{
	const struct rlimit no_core = {1, 1};
	struct jail_fault fault;

	if (job->jail && jail_join(cell, &fault) < 0)
		child_fail_jail(status_fd, &fault);
	child_reset_signals();
	setsid();
	/* In a jail it would be lost with the next change of identity. */
	if (!job->jail)
		child_die_with_parent(status_fd);
	if (!(job->flags & SPAWN_TOOL) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		child_fail(status_fd, SPAWN_STEP_PRIVILEGES);
	/* A core dump would put a guest's memory on the disk. With 0, the kernel would still hand
	 * it to a program, if the host has one for that. */
	setrlimit(RLIMIT_CORE, &no_core);
	if (job->flags & SPAWN_OOM_FIRST)
		child_oom_first();
	/* Huge pages are a matter of speed alone, and so is that an old kernel refuses this. */
	if (job->flags & SPAWN_SMALL_PAGES)
		(void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	if (job->flags & SPAWN_NICE)
		(void)setpriority(PRIO_PROCESS, 0, 10);
	go = child_keep(go, status_fd);
	status_fd = child_descriptors(job, status_fd);
	if (job->jail)
		child_jail(job, status_fd, cell, go);
	/* No program is run, which would close what is not its own. */
	if ((job->flags & (SPAWN_KVM_PROBE | SPAWN_TREE | SPAWN_RAM | SPAWN_SECRET)) &&
	    close_range(JAIL_FDS_MAX, ~0u, 0) < 0)
		_exit(127);
	if (job->flags & SPAWN_KVM_PROBE)
		kvm_probe_child(STDOUT_FILENO);
	if (job->flags & SPAWN_RAM)
		ram_copy_serve(&job->ram);
	if (job->flags & SPAWN_SECRET)
		secret_source_serve(&job->secret);
	if (job->flags & SPAWN_TREE)
		overlay_diff_serve(job->argv[0]);
	execve(job->argv[0], (char *const *)job->argv, (char *const *)job->envp);
	child_fail(status_fd, SPAWN_STEP_EXEC);
}
