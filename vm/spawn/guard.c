/* SPDX-License-Identifier: Apache-2.0 */
/* The guard: the process that was started, which outlives its spawner and its daemon. See
 * guard.h. */
#include "guard.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "vm/jail/cell.h"
#include "vm/jail/cgroup.h"
#include "vm/base/io.h"
#include "vm/base/log.h"
#include "guarded.h"
#include "herald.h"
#include "vm/base/systemd.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * Three processes make a mount. The guard is the one that was started, which a shell or an init
 * system waits for; it does next to nothing, so it is the last that something happens to. Its child
 * is the spawner, and the spawner's child is the daemon: so whoever starts processes, and holds
 * what they have, is there before the daemon and after it.
 *
 * - The daemon has confined itself, and cannot detach a mount; the spawner does it, even if the
 *   daemon was killed, and tells the guard how that ended. So does the guard end.
 * - If the spawner was killed, the daemon ends by itself, as the guard's child now, and the guard
 *   puts in order what is left. That is why it is a subreaper. One that stands still is let go on,
 *   and one that does not end is killed.
 * - The daemon may be followed by another one (heir.h), which is the spawner's child as well. So the
 *   guard looks who it is at each signal, in memory that it shares with the spawner.
 * - If the guard was killed, the spawner sees it, and ends the daemon and all else: to kill the
 *   process that was started is to end the mount.
 *
 * A pipe, the tie, transports the daemon's messages for the system's log, to which the daemon can't
 * connect any more. Its end of file is the daemon's end, or its goodbye.
 */

#define GUARD_KEEP_MAX 8u /* descriptors of guard_isolate() */
#define END_S	       30 /* for a daemon whose spawner is gone */

static struct guarded *own;		  /* in the guard */
static pid_t own_spawner;		  /* likewise */
static struct herald herald = {.fd = -1}; /* likewise */

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* All above the standard ones but these. */
static void close_others(int *const fds[], size_t n)
{
	int keep[GUARD_KEEP_MAX] = {0};
	unsigned from = STDERR_FILENO + 1;
	size_t nkeep = 0;

	for (size_t i = 0; i < n; i++) {
		if (*fds[i] >= 0)
			keep[nkeep++] = *fds[i];
	}
	qsort(keep, nkeep, sizeof(*keep), compare);
	for (size_t i = 0; i < nkeep; i++) {
		if ((unsigned)keep[i] > from)
			close_range(from, (unsigned)keep[i] - 1, 0);
		from = (unsigned)keep[i] + 1;
	}
	close_range(from, ~0u, 0);
}

int guard_isolate(int *const fds[], size_t n, const char *name)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert(n <= GUARD_KEEP_MAX);
	if (null < 0)
		return -errno;
	setsid();
	prctl(PR_SET_NAME, name);
	if (chdir("/") < 0)
		return -errno;
	for (size_t i = 0; i < n; i++) {
		if (*fds[i] >= 0 && *fds[i] <= STDERR_FILENO)
			*fds[i] = fcntl(*fds[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	}
	for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++) {
		if (dup2(null, i) < 0)
			return -errno;
	}
	close_others(fds, n);
	return 0;
}

/* ---- the guard's own process ---- */

static void on_signal(int signum)
{
	const int err = errno;
	pid_t pid;

	atomic_store(&own->asked, signum);
	pid = atomic_load(&own->daemon);
	if (pid > 0)
		kill(pid, signum);
	errno = err;
}

int guard_follow(struct guarded *g, pid_t daemon)
{
	atomic_store(&g->daemon, daemon);
	return atomic_load(&g->asked);
}

/* The spawner has ended. If that was not in good order, nobody looks after the daemon any more,
 * which ends by itself; if it can't, it is ended. */
static void on_child(int signum)
{
	const int err = errno;
	siginfo_t info = {.si_pid = 0};
	pid_t pid;

	(void)signum;
	if (waitid(P_PID, (id_t)own_spawner, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	    info.si_pid && (info.si_code != CLD_EXITED || info.si_status)) {
		pid = atomic_load(&own->daemon);
		if (pid > 0)
			kill(pid, SIGCONT);
		herald_stop(&herald);
		alarm(END_S);
	}
	errno = err;
}

/* Of await_signals(), or herald.h. */
static void on_alarm(int signum)
{
	static const char words[] = "<4>the daemon does not get on, and is killed\n";
	const int err = errno;
	const pid_t pid = atomic_load(&own->daemon);

	(void)signum;
	if (pid > 0 && !herald.ending && herald.fd >= 0)
		(void)!write(STDERR_FILENO, words, sizeof(words) - 1);
	if (pid > 0)
		kill(pid, SIGKILL);
	errno = err;
}

static void await_signals(const sigset_t *mask)
{
	static const int signums[] = {SIGTERM, SIGINT, SIGHUP};
	const struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART},
			       child = {.sa_handler = on_child,
					.sa_flags = SA_RESTART | SA_NOCLDSTOP},
			       late = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};

	sigaction(SIGCHLD, &child, NULL);
	sigaction(SIGALRM, &late, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(signums); i++)
		sigaction(signums[i], &sa, NULL);
	sigprocmask(SIG_SETMASK, mask, NULL);
}

/* What the daemon's log could not be told any more. */
static void say_words(const struct guarded *g)
{
	const unsigned n = MIN(atomic_load(&g->nwords), GUARDED_WORDS);

	for (unsigned i = 0; i < n; i++) {
		const struct spawn_note *w = &g->word[i];

		if (w->step < LOG_NLEVELS)
			log_heard((enum log_level)w->step, NULL, "spawner", w->at, w->what);
	}
	if (g->words[0])
		log_error("%.*s", (int)sizeof(g->words) - 1, g->words);
}

/* As the daemon did, for whoever waits for the one and knows nothing of the other. */
__attribute__((noreturn)) static void end_as(const struct guarded *g, int status)
{
	const int signum = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	sigset_t only;

	say_words(g);
	if (signum) {
		log_error("the daemon was killed by signal %d (%s)", signum, strsignal(signum));
		fflush(stderr);
		(void)prctl(PR_SET_DUMPABLE, 0); /* of a core there is enough in the daemon's */
		signal(signum, SIG_DFL);
		sigemptyset(&only);
		sigaddset(&only, signum);
		sigprocmask(SIG_UNBLOCK, &only, NULL);
		raise(signum);
	}
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void await(pid_t pid, int *ret_status)
{
	while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
		;
}

static bool hear(int told, int *ret_number)
{
	return fileio_read(told, ret_number, sizeof(*ret_number)) == 0;
}

__attribute__((noreturn)) static void serve(const struct guarded *g, pid_t spawner, int told,
					    int tie)
{
	int status = W_EXITCODE(1, 0); /* the spawner was killed while there was no daemon */
	pid_t daemon;

	log_serve(tie, herald_hear, &herald);
	if (hear(told, &status))
		end_as(g, status);
	await(spawner, NULL);
	/* Its children are ours now. */
	daemon = atomic_load(&g->daemon);
	if (daemon > 0)
		await(daemon, &status);
	alarm(0);
	guarded_clean(g);
	jail_cgroup_sweep();
	end_as(g, status);
}

/* ---- all three ---- */

/* What they are connected by until each has its own ends. */
struct pipes {
	int told[2]; /* from the spawner to the guard: the daemon's number, then its status */
	int tie[2];  /* from the daemon to the guard */
	int go[2];   /* from the guard to the daemon, which begins when there is a hold on it */
};

static void close_ends(int fds[2])
{
	for (int i = 0; i < 2; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

static void pipes_close(struct pipes *p)
{
	close_ends(p->told);
	close_ends(p->tie);
	close_ends(p->go);
}

static int pipes_open(struct pipes *p)
{
	int err;

	*p = (struct pipes){.told = {-1, -1}, .tie = {-1, -1}, .go = {-1, -1}};
	if (pipe2(p->told, O_CLOEXEC) == 0 && pipe2(p->tie, O_CLOEXEC) == 0 &&
	    pipe2(p->go, O_CLOEXEC) == 0)
		return 0;
	err = errno;
	pipes_close(p);
	return -err;
}

/* It is the one that is not trusted: what is guarded is none of its memory. */
static int be_daemon(struct pipes *p, const sigset_t *mask, struct guard_kin *ret_kin)
{
	char byte;

	close(steal_fd(&p->go[1]));
	if (fileio_read(p->go[0], &byte, 1) < 0)
		_exit(1);
	munmap(ret_kin->guarded, sizeof(*ret_kin->guarded));
	ret_kin->guarded = NULL;
	prctl(PR_SET_NAME, "xsbxfs-daemon");
	sigprocmask(SIG_SETMASK, mask, NULL);
	ret_kin->tie = steal_fd(&p->tie[1]);
	pipes_close(p);
	return GUARD_DAEMON;
}

/* As it was forked. */
static int be_spawner(struct pipes *p, const sigset_t *mask, struct guard_kin *ret_kin)
{
	const pid_t pid = fork();

	if (pid == 0)
		return be_daemon(p, mask, ret_kin);
	if (pid < 0)
		_exit(1);
	atomic_store(&ret_kin->guarded->daemon, pid);
	if (write(p->told[1], &pid, sizeof(pid)) != sizeof(pid))
		_exit(1);
	jail_instance_begin(pid);
	ret_kin->daemon = pid;
	ret_kin->told = steal_fd(&p->told[1]);
	pipes_close(p);
	return GUARD_SPAWNER;
}

/* It knows the daemon before that does anything. Return: 0, or -EAGAIN: it will not. */
static int take_hold(struct pipes *p)
{
	pid_t daemon;

	close(steal_fd(&p->told[1]));
	close(steal_fd(&p->tie[1]));
	close(steal_fd(&p->go[0]));
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 || !hear(p->told[0], &daemon))
		return -EAGAIN;
	if (write(p->go[1], "", 1) != 1)
		return -EAGAIN;
	close(steal_fd(&p->go[1]));
	return 0;
}

/* It is the one that systemd has started, and no guest has a way to it. */
static void meet_systemd(void)
{
	const char *journal = getenv("XSBXFS_JOURNAL"); /* another one, in tests */

	if (log_has_journal())
		log_to_entries(systemd_connect(journal ? journal : SYSTEMD_JOURNAL));
	herald_open(&herald);
}

/* Return: -EAGAIN, or not. */
static int be_guard(struct guarded *g, pid_t spawner, struct pipes *p, bool background,
		    const sigset_t *mask)
{
	int *const keep[] = {&p->told[0], &p->tie[0]};
	const int r = take_hold(p);

	if (r < 0) {
		kill(spawner, SIGKILL);
		await(spawner, NULL);
		return r;
	}
	own = g;
	own_spawner = spawner;
	if (background) {
		(void)guard_isolate(keep, ARRAY_SIZE(keep), "xsbxfs");
		log_to_system(g->guard);
	} else {
		close_others(keep, ARRAY_SIZE(keep));
		meet_systemd();
	}
	await_signals(mask);
	serve(g, spawner, p->told[0], p->tie[0]);
}

int guard_start(const char *runtime_dir, bool background, struct guard_kin *ret_kin)
{
	struct guarded *g =
		mmap(NULL, sizeof(*g), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sigset_t all, before;
	struct pipes p;
	pid_t pid;
	int r;

	if (g == MAP_FAILED)
		return -errno;
	r = pipes_open(&p);
	if (r < 0) {
		munmap(g, sizeof(*g));
		return r;
	}
	*ret_kin = (struct guard_kin){.guarded = g, .told = -1, .tie = -1};
	snprintf(g->runtime_dir, sizeof(g->runtime_dir), "%s", runtime_dir ? runtime_dir : "");
	g->guard = getpid();
	(void)jail_instance_id(); /* so that all three agree */
	/* Born deaf: a signal to the whole process group can't hit one before it is set up. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid == 0)
		return be_spawner(&p, &before, ret_kin);
	r = pid < 0 ? -errno : be_guard(g, pid, &p, background, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
	pipes_close(&p);
	munmap(g, sizeof(*g));
	return r;
}

void guard_tell(int told, int status)
{
	(void)!write(told, &status, sizeof(status));
}
