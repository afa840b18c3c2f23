/* SPDX-License-Identifier: Apache-2.0 */
/* Starts processes as user code. */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chance.h"
#include "filter.h"
#include "vm/base/landlock.h"
#include "guest_env.h"
#include "learn.h"
#include "proc.h"
#include "util.h"

/*
 * Theory of operation
 * -------------------
 * The child goes through a list of steps; the first that fails is reported, with its errno, on a
 * pipe which a successful exec closes. Order matters: the bounding set needs CAP_SETPCAP, so it is
 * emptied before the ids change; RLIMIT_NPROC is set after them, because the kernel would
 * otherwise count the user's processes at setresuid() and refuse the exec when a background
 * process of an earlier run has used the limit up; PDEATHSIG is lost at setresuid().
 */

/* In the child, from its first step on: the report pipe, and what confines it */
#define SPAWN_ERR	5
#define SPAWN_RULESET	6
#define SPAWN_CHANCE	7
#define SPAWN_LEARN	8

#define STOPPED_LOOK_MS 100
#define STOPPED_US	2000000u

struct spawn_report {
	int step, error;
};

static int step_fds(const struct spawn *s, int err_fd)
{
	const int in_fd = s->in_fd < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : s->in_fd;
	const int chance = s->chance ? s->chance->fd : -1;
	int from[] = {in_fd,  s->out_fd,       s->err_fd, s->ctl_fd, s->bell_fd,
		      err_fd, s->env->ruleset, chance,	  learn_fd()};

	/* First out of the way of the numbers they are to have. */
	for (size_t i = 0; i < ARRAY_SIZE(from); i++) {
		if (from[i] < 0 && i > STDERR_FILENO && i != SPAWN_ERR)
			continue;
		from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 16);
		if (from[i] < 0)
			return -1;
	}
	for (int i = 0; i < (int)ARRAY_SIZE(from); i++) {
		if (from[i] < 0)
			close(i);
		else if (dup3(from[i], i, i >= SPAWN_ERR ? O_CLOEXEC : 0) < 0)
			return -1;
	}
	return (int)syscall(SYS_close_range, SPAWN_LEARN + 1, ~0u, 0);
}

static int step_session(const struct spawn *s)
{
	if (setsid() < 0)
		return -1;
	return s->tty ? ioctl(0, TIOCSCTTY, 0) : 0;
}

static const int ignored[] = {SIGPIPE, SIGXFSZ}; /* by the agent, see signals_init() */

static int step_signals(const struct spawn *s)
{
	sigset_t none;

	(void)s;
	/* Handlers end with the program, what we ignore would not. */
	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		(void)signal(ignored[i], SIG_DFL);
	sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The agent itself is exempt from the OOM killer; user code is not. */
static int step_oom(const struct spawn *s)
{
	/* On a host the first to go is user code, and it can't be set back later. */
	const char *score = s->env->jail ? "900" : s->spare ? "1000" : "0";
	const int r =
		s->env->guest || s->env->jail ? proc_write("/proc/self/oom_score_adj", score) : 0;

	if (r < 0)
		errno = -r;
	return r;
}

static int step_rank(const struct spawn *s)
{
	const struct sched_param p = {0};
	char text[12];

	/* By so much less than we are, who may have been started with nice(1) ourselves. */
	errno = 0;
	if (s->nice && nice((int)s->nice) == -1 && errno)
		return -1;
	if (s->nice) {
		/* Where the kernel shares out by sessions, that counts. It can't be had twice in a tenth of a second, and may be
		 * switched off. */
		snprintf(text, sizeof(text), "%u", s->nice);
		(void)proc_write("/proc/self/autogroup", text);
	}
	/* In a jail nothing could take it back. */
	return s->spare && !s->env->jail ? sched_setscheduler(0, SCHED_IDLE, &p) : 0;
}

/* What root keeps: rights over files and users of the machine, none over its kernel, devices and network, or over us. */
#define CAP(name) (1ull << CAP_##name)
#define ROOT_CAPS                                                                               \
	(CAP(CHOWN) | CAP(DAC_OVERRIDE) | CAP(FOWNER) | CAP(FSETID) | CAP(KILL) | CAP(SETGID) | \
	 CAP(SETUID) | CAP(SETFCAP) | CAP(NET_BIND_SERVICE) | CAP(SYS_CHROOT))

/* By executing a program nobody will ever get others than these. */
static int drop_bounds(uint64_t kept)
{
	for (int cap = 0; cap < 64; cap++) {
		if (!(kept >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return errno == EINVAL && cap > 0 ? 0 : -1; /* past the last one */
	}
	return 0;
}

/* What nobody is to have went before, see spawn_prepare(). */
static int step_caps(const struct spawn *s)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return s->env->root && !s->root ? drop_bounds(0) : 0;
}

static int step_ids(const struct spawn *s)
{
	const uid_t uid = s->root ? 0 : s->env->uid;
	const gid_t gid = s->root ? 0 : s->env->gid;

	/* Those of the C library are for all threads. */
	if (s->env->drop &&
	    (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, gid, gid, gid) < 0 ||
	     syscall(SYS_setresuid, uid, uid, uid) < 0))
		return -1;
	/* A --local agent that is killed takes its interpreter along. */
	return s->env->guest ? 0 : prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

static int step_limits(const struct spawn *s)
{
	struct rlimit nproc = {s->nproc, s->nproc};
	struct rlimit nofile = {s->nofile, s->nofile};
	const struct rlimit fsize = {s->fsize, s->fsize};
	const struct rlimit core = {0, 0};
	struct rlimit now;

	/* One who shares the agent's id has the agent counted among its processes. */
	if (s->env->jail && !s->env->drop)
		nproc.rlim_cur = ++nproc.rlim_max;
	/* Who started it on the host may have fewer himself. */
	if (getrlimit(RLIMIT_NPROC, &now) == 0 && now.rlim_max < nproc.rlim_max)
		nproc = now;
	/* On the host, other processes of the same user would count. */
	if ((s->env->guest || s->env->jail) && setrlimit(RLIMIT_NPROC, &nproc) < 0)
		return -1;
	if (!s->env->guest && getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_max < nofile.rlim_max)
		nofile = now;
	if (setrlimit(RLIMIT_NOFILE, &nofile) < 0)
		return -1;
	if (s->fsize && setrlimit(RLIMIT_FSIZE, &fsize) < 0)
		return -1;
	return setrlimit(RLIMIT_CORE, &core);
}

static int step_chdir(const struct spawn *s)
{
	umask(022);
	if (chdir(s->env->work) < 0)
		return -1;
	return s->cwd ? chdir(s->cwd) : 0;
}

/* In a jail: no capabilities, whether or not there was an identity to change, and Landlock. The
 * system calls were filtered before the agent was started. */
static int step_confine(const struct spawn *s)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0};

	if (!s->env->jail)
		return 0;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
	    syscall(SYS_capset, &h, none) < 0)
		return -1;
	return s->env->ruleset < 0 ? 0 : landlock_enter(SPAWN_RULESET);
}

/* A jail's own filter was there before the agent; what is missing there is what the agent needs for this
 * one, and, if they have the same id, what differs between the agent and user code. */
static int step_filter(const struct spawn *s)
{
	if (learn_fd() >= 0 && learn_enter(SPAWN_LEARN) < 0)
		return -1;
	if (s->env->guest)
		return filter_confine(FILTER_KERNEL | FILTER_AGENT);
	if (!s->env->jail)
		return 0;
	return filter_confine(FILTER_FILTERS | FILTER_INSIDES |
			      (s->env->drop ? 0u : FILTER_AGENT | FILTER_LIMITS));
}

/* Its addresses are the same in each of its like, and whom it asks for random bytes is told to the agent. */
static int step_chance(const struct spawn *s)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	uint32_t job = s->job;
	struct iovec iov = {&job, sizeof(job)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.space,
			     .msg_controllen = sizeof(control.space)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&msg);
	int fd;

	if (!s->chance || s->chance->fd < 0)
		return 0;
	(void)personality(ADDR_NO_RANDOMIZE);
	fd = filter_listen();
	if (fd < 0)
		return -1;
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	return sendmsg(SPAWN_CHANCE, &msg, MSG_NOSIGNAL) == sizeof(job) ? close(fd) : -1;
}

static int step_exec(const struct spawn *s)
{
	return execvpe(s->argv[0], (char *const *)s->argv, s->envp);
}

static const struct {
	const char *name;
	int (*take)(const struct spawn *s); /* negative with errno if it fails */
} steps[] = {
	{"setsid", step_session},
	{"signals", step_signals},
	{"oom_score_adj", step_oom},
	{"scheduling policy", step_rank},
	{"capabilities", step_caps},
	{"user and group", step_ids},
	{"resource limits", step_limits},
	{"working directory", step_chdir},
	{"confinement", step_confine},
	{"random numbers by a seed", step_chance},
	{"filter of system calls", step_filter},
	{"starting the program", step_exec},
};

#define STEP_FDS ((int)ARRAY_SIZE(steps)) /* before all of these */

static void spawn_fail(int err_fd, int step)
{
	struct spawn_report report = {step, errno};

	if (write(err_fd, &report, sizeof(report)) < 0)
		_exit(126);
	_exit(127);
}

static void spawn_child(const struct spawn *s, int err_fd)
{
	if (step_fds(s, err_fd) < 0)
		spawn_fail(err_fd, STEP_FDS);
	for (int i = 0; i < STEP_FDS; i++) {
		if (steps[i].take(s) < 0)
			spawn_fail(SPAWN_ERR, i);
	}
}

/* Return: the set of rules for step_confine(), or -errno. */
static int make_rules(const struct guest_env *env)
{
	struct landlock_rule rules[5 + GUEST_ENV_WRITE_MAX] = {
		{"/home/user", true}, {"/tmp", true},	{"/dev/shm", true},
		{"/dev", false},      {"/proc", false},
	};
	size_t n = 5;

	for (size_t i = 0; i < env->nwrite; i++)
		rules[n++] = (struct landlock_rule){env->write[i], true};
	return landlock_make(rules, n, LANDLOCK_READ_ALL);
}

int spawn_prepare(struct guest_env *env)
{
	const struct sigaction sa = {.sa_handler = SIG_DFL};

	/* The C library keeps two signals for itself. */
	for (int sig = 1; sig < NSIG; sig++)
		(void)sigaction(sig, &sa, NULL);
	env->ruleset = env->jail ? make_rules(env) : -1;
	if (env->jail && env->ruleset < 0 && env->ruleset != -EOPNOTSUPP)
		return env->ruleset;
	return (env->drop || env->jail) && drop_bounds(env->root ? ROOT_CAPS : 0) < 0 ? -errno : 0;
}

/* User code may stop the child as soon as that has the user's id, and again whenever we let it go on. Return: the length of
 * what the child reports; 0 when it was executed, or killed for taking too long. */
static ssize_t await(const struct spawn *s, pid_t pid, int fd, struct spawn_report *ret)
{
	const uint64_t until = now_us() + STOPPED_US;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t n;

	while (!s->stands && poll(&p, 1, STOPPED_LOOK_MS) <= 0)
		(void)kill(pid, now_us() < until ? SIGCONT : SIGKILL);
	do
		n = read(fd, ret, sizeof(*ret));
	while (n < 0 && errno == EINTR);
	return n;
}

/* The child makes system calls only, so that it needs no memory of its own. But ours is not for the user, as whose child it
 * gets its id: then it is its own, which others of that id may look at and change, or one that nobody may. */
static bool shares_memory(const struct spawn *s)
{
	return s->stands && s->env->drop && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

int spawn_run(const struct spawn *s, pid_t *ret_pid, const char **ret_step)
{
	struct spawn_report report;
	int fds[2];
	ssize_t n;
	pid_t pid;

	*ret_step = "pipe";
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	*ret_step = "fork";
	/* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork) */
	pid = shares_memory(s) ? vfork() : fork();
	if (pid == 0)
		spawn_child(s, fds[1]); /* NOLINT(clang-analyzer-unix.Vfork) */
	close(fds[1]);
	if (pid < 0) {
		int r = -errno;

		close(fds[0]);
		return r;
	}
	n = await(s, pid, fds[0], &report);
	close(fds[0]);
	if (n == 0) {
		*ret_pid = pid;
		return 0;
	}
	(void)waitpid(pid, NULL, 0);
	if (n != sizeof(report) || report.step < 0 || report.step > STEP_FDS)
		return -EIO;
	*ret_step = report.step == STEP_FDS ? "descriptors" : steps[report.step].name;
	return report.error > 0 ? -report.error : -EIO;
}
