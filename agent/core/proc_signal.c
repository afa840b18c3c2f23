/* SPDX-License-Identifier: Apache-2.0 */
/* Stops, terminates and kills the processes of user code, by pidfd. */
#include "proc_signal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc.h"
#include "util.h"

/* Sends a signal to a process, after making sure that it is still the one that was found. Return: a
 * descriptor of it, or -1. */
static int proc_signal(const struct proc *p, int sig)
{
	int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);

	if (fd >= 0 && proc_is(p))
		(void)syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0);
	else
		close_fd(&fd);
	return fd;
}

static void tell(const struct proc *p, int sig)
{
	int fd = proc_signal(p, sig);

	close_fd(&fd);
}

static void proc_finish(int fd)
{
	if (fd < 0)
		return;
	(void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
	/* One that is killed while the kernel looks for memory on its behalf dies when that has been
	 * found, which can take many seconds; what it has is memory. */
	(void)syscall(SYS_process_mrelease, fd, 0);
	close(fd);
}

static bool is_in_scope(struct proc_set *all, const struct proc *p, const struct proc_scope *scope)
{
	if (!scope)
		return true;
	if (p->holder != scope->holder)
		return false;
	for (size_t depth = 0; p && scope->keep && depth < all->n + 1; depth++) {
		if (p->pid == scope->not_kept)
			return true;
		if (proc_set_has(scope->keep, p->pid, p->start))
			return false;
		p = proc_set_find(all, p->parent);
	}
	return true;
}

/* Lists user code; what is out of the scope does not count as live. Return: how many do, or -errno. */
static int proc_victims(struct proc_set *all, const struct proc_scope *scope, bool lately)
{
	int victims = 0;
	int r = lately ? proc_scan_lately(all) : proc_scan(all);

	if (r < 0) {
		proc_set_clear(all);
		return r;
	}
	for (size_t i = 0; i < all->n; i++) {
		struct proc *p = &all->v[i];

		p->live = p->live && is_in_scope(all, p, scope);
		victims += p->live;
	}
	return victims;
}

int proc_kill(const struct proc_scope *scope, uint64_t *ret_as_of)
{
	struct proc_set all = {0};
	int victims = proc_victims(&all, scope, true);

	*ret_as_of = all.as_of;
	for (size_t i = 0; i < all.n; i++)
		all.v[i].fd = all.v[i].live ? proc_signal(&all.v[i], SIGSTOP) : -1;
	for (size_t i = 0; i < all.n; i++)
		proc_finish(all.v[i].fd);
	proc_set_clear(&all);
	return victims;
}

void proc_chase(int ret_fds[PROC_CHASED])
{
	pid_t was = 0;

	for (size_t i = 0; i < PROC_CHASED; i++) {
		const pid_t newest = proc_last_pid();

		ret_fds[i] = -1;
		if (getpid() != 1 || newest <= 1 || newest == was)
			continue;
		ret_fds[i] = (int)syscall(SYS_pidfd_open, newest, 0);
		if (ret_fds[i] < 0)
			continue; /* not there yet, or not any more */
		(void)syscall(SYS_pidfd_send_signal, ret_fds[i], SIGSTOP, NULL, 0);
		was = newest;
	}
}

void proc_chase_over(int fds[PROC_CHASED])
{
	for (size_t i = 0; i < PROC_CHASED; i++) {
		if (fds[i] >= 0)
			(void)syscall(SYS_pidfd_send_signal, fds[i], SIGCONT, NULL, 0);
		close_fd(&fds[i]);
	}
}

int proc_ask(const struct proc_scope *scope)
{
	struct proc_set all = {0};
	int victims = proc_victims(&all, scope, false);

	for (size_t i = 0; i < all.n; i++) {
		int fd = all.v[i].live ? proc_signal(&all.v[i], SIGTERM) : -1;

		if (fd >= 0) /* what is stopped would not hear it */
			(void)syscall(SYS_pidfd_send_signal, fd, SIGCONT, NULL, 0);
		close_fd(&fd);
	}
	proc_set_clear(&all);
	return victims;
}

int proc_count(const struct proc_scope *scope, pid_t one)
{
	struct proc_set all = {0};
	int victims = proc_victims(&all, scope, true);

	for (size_t i = 0; i < all.n; i++)
		victims -= all.v[i].live && all.v[i].pid == one;
	proc_set_clear(&all);
	return victims;
}

/* Is this thread stopped, by a signal or by one who traces it, or gone? */
static bool is_still_thread(pid_t pid, pid_t tid, char *ret_state)
{
	char path[64];
	struct proc_stat s;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	if (proc_read_stat(path, &s) < 0 || strchr("TtZX", s.state))
		return true;
	*ret_state = s.state;
	return false;
}

/* Of what /proc hides nobody can tell: it counts as running until it is gone. @ret_state: of a thread that runs; 0 there */
static bool look_at(const struct proc *p, char *ret_state)
{
	_cleanup_dir_ DIR *d = proc_threads(p->pid);
	bool still = true;
	pid_t tid;

	*ret_state = 0;
	if (!d)
		return !proc_is(p);
	while (still && (tid = proc_next(d)))
		still = is_still_thread(p->pid, tid, ret_state);
	return still;
}

static bool is_still(const struct proc *p)
{
	char state;

	return look_at(p, &state);
}

void proc_keep_stopped(struct proc_set *set)
{
	size_t kept = 0;

	for (size_t i = 0; i < set->n; i++) {
		if (set->v[i].live && is_still(&set->v[i]))
			set->v[kept++] = set->v[i];
	}
	set->n = kept;
}

static uint64_t number_behind(const char *text, const char *key)
{
	const char *p = strstr(text, key);

	return p ? strtoull(p + strlen(key), NULL, 10) : 0;
}

static uint64_t thread_switches(pid_t pid, pid_t tid)
{
	char path[64], text[4096] = "";

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
	(void)proc_text(path, text, sizeof(text));
	return number_behind(text, "\nvoluntary_ctxt_switches:") +
	       number_behind(text, "\nnonvoluntary_ctxt_switches:");
}

static uint64_t switches(pid_t pid)
{
	_cleanup_dir_ DIR *d = proc_threads(pid);
	uint64_t sum = 0;
	pid_t tid;

	while (d && (tid = proc_next(d)))
		sum += (1ull << 40) + thread_switches(pid, tid);
	return sum;
}

uint64_t proc_switches(const struct proc_set *set)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < set->n; i++)
		sum += switches(set->v[i].pid);
	return sum;
}

unsigned proc_running(const struct proc_set *set, struct proc_set *before,
		      struct proc_runner *ret_first)
{
	unsigned running = 0;

	for (size_t i = 0; i < set->n; i++) {
		const struct proc *p = &set->v[i];
		char state;

		if (!p->live || look_at(p, &state))
			continue;
		if (running++ == 0 && ret_first)
			*ret_first =
				(struct proc_runner){p->pid, p->start, state, switches(p->pid)};
		if (!before)
			continue;
		tell(p, SIGSTOP);
		proc_set_remove(before, p->pid, p->start);
	}
	return running;
}

void proc_continue(const struct proc_set *all, const struct proc_set *keep)
{
	/* Children first: no parent sees one that is stopped. */
	for (size_t i = all->n; i-- > 0;) {
		if (all->v[i].live && !proc_set_has(keep, all->v[i].pid, all->v[i].start))
			tell(&all->v[i], SIGCONT);
	}
}

void proc_continue_except(const struct proc_set *keep)
{
	struct proc_set all = {0};

	if (proc_scan(&all) == 0)
		proc_continue(&all, keep);
	proc_set_clear(&all);
}

bool proc_untrace(pid_t pid, int status)
{
	const int sig = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;

	if (!WIFSTOPPED(status))
		return false;
	/* With SIGTRAP a tracer is told of an exec: nobody has sent it. */
	(void)syscall(SYS_ptrace, PTRACE_DETACH, pid, 0L, (long)(sig == SIGTRAP ? 0 : sig));
	return true;
}
