/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner: the small process that is the parent of every sandbox's processes. */
#include "spawner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "fdpass.h"
#include "guard.h"
#include "spawner_server.h"
#include "spawner_wire.h"
#include "tree.h"
#include "util.h"

/*
 * Theory of operation
 * -------------------
 * The daemon never forks: it is large, and a fork would copy its page tables and everything it
 * knows. Instead it forks this process once, while it is small, and asks it for everything else.
 *
 * The protocol is one datagram per request and per piece of news, so there is nothing to parse but
 * fixed structs. One request after the other, in one thread; starting a program takes a millisecond or
 * two, in which the daemon goes on with its own work.
 *
 * What may be started is not the daemon's to say, which may be somebody else's by then: a request is
 * judged, and made into a job, by rules that the spawner was forked with, see policy.c.
 *
 * That a child dies with its parent is ensured three times over. PDEATHSIG kills it if the spawner
 * dies; the end of file of the socket tells the spawner that the daemon died, whatever killed it;
 * and orphans of a child (which can only be there with the backend for tests, a machine has
 * none) come to the spawner, which is a subreaper, and are killed at once.
 *
 * The spawner sits in a session of its own with all signals blocked, so Ctrl-C on a terminal, or a
 * TERM to everything named xsbxfs, reaches the daemon alone, and it decides what ends when.
 */

struct kid {
	uint32_t id;
	pid_t pid;
	struct jail_cell cell; /* if it is jailed */
};

struct server {
	int sock, sigfd;
	struct kid *kids;
	size_t nkids, cap;
	bool stop; /* the daemon said goodbye: what is guarded is in order */
	const struct spawner_rules *rules;
	struct guarded *guarded;
};

/* News for the daemon. If it is gone, its end of file says so soon enough. */
static void note_send(struct server *s, struct spawn_note *note, const int *fds, size_t nfds)
{
	fdpass_send(s->sock, note, sizeof(*note), fds, nfds, 0);
}

static void spawn_failed(struct server *s, uint32_t id, const struct spawn_error *e)
{
	struct spawn_note note = {.op = SPAWN_NOTE_FAILED,
				  .id = id,
				  .step = e->step,
				  .error = e->error,
				  .jail_step = e->fault.step};

	memcpy(note.what, e->fault.what, sizeof(note.what));
	note_send(s, &note, NULL, 0);
}

/* It runs; the daemon gets a hold on it, and on what counts what it uses. */
static void spawn_started(struct server *s, struct spawn_note *note, int pidfd,
			  const struct jail_cell *cell, int kept)
{
	int fds[SPAWN_NOTE_FDS] = {pidfd};
	struct gauges g = GAUGES_NONE;
	size_t n = 1;

	if (cell->taken)
		jail_cgroup_watch(cell, &g);
	for (int i = 0; i < GAUGE_NUMBER; i++) {
		if (g.fd[i] < 0)
			continue;
		note->gauges |= 1u << i;
		fds[n++] = g.fd[i];
	}
	note->kept = kept >= 0;
	if (kept >= 0)
		fds[n++] = kept;
	note_send(s, note, fds, n);
	gauges_close(&g);
}

static uint32_t oom_kills(const struct jail_cell *cell)
{
	struct gauges g = GAUGES_NONE;
	uint64_t n;

	if (!cell->taken)
		return 0;
	jail_cgroup_watch(cell, &g);
	n = gauges_oom_kills(&g);
	gauges_close(&g);
	return (uint32_t)MIN(n, UINT32_MAX);
}

static int kid_add(struct server *s, uint32_t id, pid_t pid, const struct jail_cell *cell)
{
	if (s->nkids == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 16;
		struct kid *kids = reallocarray(s->kids, cap, sizeof(*kids));

		if (!kids)
			return -ENOMEM;
		s->kids = kids;
		s->cap = cap;
	}
	s->kids[s->nkids++] = (struct kid){id, pid, *cell};
	return 0;
}

/* It is gone, with all that it was the first process of. */
static void kid_remove(struct server *s, size_t i)
{
	jail_release(&s->kids[i].cell);
	s->kids[i] = s->kids[--s->nkids];
}

static void kill_and_reap(pid_t pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* Return: the process id, or 0 with @e filled in. Does not return in the child. */
static pid_t give_birth(const struct spawn_job *job, const int p[2], struct jail_cell *cell,
			int *ret_pidfd, struct spawn_error *e)
{
	int go = -1;
	pid_t pid;

	e->step = SPAWN_STEP_FORK;
	if (job->jail) {
		e->step = SPAWN_STEP_JAIL;
		e->error = jail_place(job->jail, cell, &e->fault);
		if (e->error < 0)
			return 0;
		pid = jail_clone(job->jail, cell, ret_pidfd, &go, &e->fault);
	} else {
		/* Without what libraries want done at a fork: they had their descriptors closed. */
		pid = _Fork();
		if (pid < 0)
			pid = -errno;
	}
	if (pid == 0) {
		close(p[0]);
		spawner_child(job, p[1], cell, go);
	}
	if (pid > 0 && *ret_pidfd < 0)
		*ret_pidfd = pidfd_open(pid, 0);
	if (pid > 0)
		return pid;
	e->error = pid;
	return 0;
}

/* Waits until the program runs, or could not be run, and looks whether it is jailed as it should
 * be. Return: false with @e filled in. */
static bool await_exec(const struct spawn_job *job, int status, pid_t pid, struct jail_cell *cell,
		       int *ret_kept, struct spawn_error *e)
{
	ssize_t n;

	do
		n = read(status, e, sizeof(*e));
	while (n < 0 && errno == EINTR);
	if (n == sizeof(*e))
		return false;
	if (!job->jail)
		return true;
	e->step = SPAWN_STEP_JAIL;
	e->error = jail_verify(job->jail, pid, cell, &e->fault);
	if (e->error == 0)
		e->error = jail_keep(job->jail, pid, ret_kept, &e->fault);
	return e->error == 0;
}

/* Forks, and waits until the program runs or could not be run. */
static void spawn(struct server *s, uint32_t id, const struct spawn_job *job)
{
	struct spawn_note note = {.op = SPAWN_NOTE_STARTED, .id = id};
	struct spawn_error e = {.step = SPAWN_STEP_FORK};
	_cleanup_close_ int status = -1, pidfd = -1, kept = -1;
	struct jail_cell cell = {.into = -1};
	int p[2];
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0) {
		e.error = -errno;
		spawn_failed(s, id, &e);
		return;
	}
	status = p[0];
	pid = give_birth(job, p, &cell, &pidfd, &e);
	close(p[1]);
	if (pid && await_exec(job, status, pid, &cell, &kept, &e)) {
		e = (struct spawn_error){.step = SPAWN_STEP_FORK, .error = -EMFILE};
		if (pidfd >= 0)
			e.error = kid_add(s, id, pid, &cell);
		if (e.error == 0) {
			note.pid = pid;
			note.report = cell.report;
			spawn_started(s, &note, pidfd, &cell, kept);
			return;
		}
	}
	if (pid)
		kill_and_reap(pid);
	jail_release(&cell);
	spawn_failed(s, id, &e);
}

/* What a sandbox has changed lies in memory of its own, and belongs to an id of a jail, where jails have such. */
static bool is_upper(int fd, const struct stat *st)
{
	struct statfs fs;

	return S_ISDIR(st->st_mode) && fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC &&
	       (!jail_has_private_ids() || jail_has_id(st->st_uid));
}

/*
 * Descriptors come from the daemon, which may be somebody else's. From a directory of the host's, or a place
 * that was only looked up, who is in a jail gets at all that lies below and above it, with whatever rights his
 * id has there; a file that was opened to be read he can open once more, to be written. So of directories only
 * changes come through, and files go to machines alone, whose Landlock rules let them be read.
 */
static bool fd_ok(const struct spawn_job *job, const struct spawn_target *t)
{
	const int fd = job->fds[t->from], flags = fcntl(fd, F_GETFL);
	struct stat st;

	if (flags < 0 || fstat(fd, &st) < 0)
		return false;
	if ((job->flags & SPAWN_TREE) && t->to == TREE_UPPER_FD)
		return is_upper(fd, &st);
	return !(flags & O_PATH) && !S_ISDIR(st.st_mode) && !S_ISBLK(st.st_mode) &&
	       !(S_ISREG(st.st_mode) && job->jail && job->jail->use == JAIL_SANDBOX);
}

/* Is what the rules came up with something that can be done? Return: 0 or -errno. */
static int check_job(const struct spawn_job *job)
{
	if (job->ntargets > SPAWN_FDS_MAX || !job->argv[0] ||
	    (job->argv[0][0] != '/' && !(job->flags & (SPAWN_TREE | SPAWN_KVM_PROBE))))
		return -EINVAL;
	for (size_t i = 0; i < job->ntargets; i++) {
		if (job->target[i].to < 0 || job->target[i].to >= SPAWN_TARGET_MAX)
			return -EINVAL;
		if (job->target[i].from >= job->nfds)
			return -EMFILE; /* there was no room for them */
		if (!fd_ok(job, &job->target[i]))
			return -EPERM;
	}
	return 0;
}

static enum spawn_step step_of(int error)
{
	switch (-error) {
	case EPERM:
	case EBADMSG:
	case EINVAL: return SPAWN_STEP_REFUSED;
	case EMFILE: return SPAWN_STEP_DESCRIPTORS;
	default: return SPAWN_STEP_PROGRAM;
	}
}

static void judge(struct server *s, uint32_t id, const char *request, size_t len,
		  struct spawn_job *job)
{
	struct spawn_error e = {0};

	e.error = s->rules->job(s->rules->data, request, len, job->nfds, job);
	if (e.error == 0)
		e.error = check_job(job);
	e.step = step_of(e.error);
	if (e.error == 0)
		spawn(s, id, job);
	else
		spawn_failed(s, id, &e);
}

static void kill_kid(const struct server *s, uint32_t id)
{
	for (size_t i = 0; i < s->nkids; i++) {
		if (s->kids[i].id == id)
			kill(s->kids[i].pid, SIGKILL);
	}
}

/* All that the daemon can ask for. */
static void serve(struct server *s, const char *message, size_t len, struct spawn_job *job)
{
	struct spawn_request req;

	if (len < sizeof(req))
		return;
	memcpy(&req, message, sizeof(req));
	switch (req.op) {
	case SPAWN_OP_SPAWN: judge(s, req.id, message + sizeof(req), len - sizeof(req), job); break;
	case SPAWN_OP_MOUNTED:
		guard_set(s->guarded, s->rules->mountpoint, s->rules->runtime_dir);
		break;
	case SPAWN_OP_UNMOUNT: guard_unmount(s->guarded); break;
	case SPAWN_OP_STOP: s->stop = true; break;
	case SPAWN_OP_KILL: kill_kid(s, req.id); break;
	default: break;
	}
}

/* Return: false once the daemon's end is closed. */
static bool receive(struct server *s)
{
	static char message[SPAWN_MESSAGE_MAX];
	struct spawn_job job = {0};
	ssize_t n = fdpass_receive(s->sock, message, sizeof(message), job.fds, SPAWN_FDS_MAX,
				   &job.nfds, 0);

	if (n < 0)
		return n == -EAGAIN;
	if (n == 0)
		return false;
	serve(s, message, (size_t)n, &job);
	for (size_t i = 0; i < job.nfds; i++)
		close(job.fds[i]);
	return !s->stop;
}

static bool is_kid(const struct server *s, pid_t pid)
{
	for (size_t i = 0; i < s->nkids; i++) {
		if (s->kids[i].pid == pid)
			return true;
	}
	return false;
}

/* Kills the processes that became children by the death of their parents, and with @all every
 * child. */
static void kill_children(const struct server *s, bool all)
{
	_cleanup_free_ char *line = NULL;
	_cleanup_file_ FILE *f = NULL;
	char path[64], *pos, *end;
	size_t size = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	f = fopen(path, "re");
	if (f && getline(&line, &size, f) > 0) {
		for (pos = line;; pos = end) {
			const pid_t pid = (pid_t)strtol(pos, &end, 10);

			if (end == pos)
				break;
			if (all || !is_kid(s, pid))
				kill(pid, SIGKILL);
		}
	}
	for (size_t i = 0; all && i < s->nkids; i++)
		kill(s->kids[i].pid, SIGKILL);
}

static void reap(struct server *s)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	(void)!read(s->sigfd, &info, sizeof(info));
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (size_t i = 0; i < s->nkids; i++) {
			struct spawn_note note = {.op = SPAWN_NOTE_EXITED,
						  .id = s->kids[i].id,
						  .pid = pid,
						  .status = status};

			if (s->kids[i].pid != pid)
				continue;
			/* Nobody can look once its groups are removed. */
			note.oom_kills = oom_kills(&s->kids[i].cell);
			kid_remove(s, i);
			note_send(s, &note, NULL, 0);
			break;
		}
	}
	kill_children(s, false);
}

/* The end: no child may be left, then no mount, then no file. */
static void clean_up(struct server *s)
{
	int status;
	pid_t pid;

	do {
		kill_children(s, true);
		pid = waitpid(-1, &status, 0);
		for (size_t i = 0; i < s->nkids; i++) {
			if (s->kids[i].pid == pid)
				kid_remove(s, i--);
		}
	} while (pid > 0 || errno == EINTR);
	jail_release_all();
	if (s->stop)
		guard_leave(s->guarded);
	else
		guard_clean(s->guarded);
}

void spawner_serve(const struct spawner_rules *rules, int sock, struct guarded *guarded)
{
	struct server s = {
		.sock = guard_isolate(sock, "xsbxfs-spawner"), .rules = rules, .guarded = guarded};
	struct pollfd p[2];
	sigset_t chld;

	if (s.sock < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		_exit(1);
	guard_set(guarded, NULL, rules->runtime_dir);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	s.sigfd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s.sigfd < 0)
		_exit(1);
	p[0] = (struct pollfd){.fd = s.sock, .events = POLLIN};
	p[1] = (struct pollfd){.fd = s.sigfd, .events = POLLIN};
	for (;;) {
		if (poll(p, ARRAY_SIZE(p), -1) < 0)
			continue;
		if (p[1].revents)
			reap(&s);
		if (p[0].revents && !receive(&s))
			break;
	}
	clean_up(&s);
	_exit(0);
}
