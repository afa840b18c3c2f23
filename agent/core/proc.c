/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the processes of user code in /proc, and reads their numbers. */
#include "proc.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/protocol.h"
#include "util.h"

/*
 * In a jail, /proc has hidepid, so that user code does not see the spare interpreters. As we have
 * capabilities only in the jail, the kernel also hides from us any undumpable process whose first
 * thread has ended or is about to end. Its other threads may run forever, and until it is gone its
 * children are not recognized as ours. So in a jail every possible process number is tried.
 */

#define PID_LIMIT 4194304 /* the kernel's own, where it does not say */
#define PROC_MAX \
	65536u /* more cannot be: pid_max is 32768 in a guest, in a jail there is a limit of processes */
#define KTHREADD      2
#define KERNEL_THREAD 0x00200000u /* PF_KTHREAD in the flags of /proc/PID/stat */
#define SLOW_US	      20000u	  /* a scan that takes longer is not made for each who wants one */

static pid_t exempt[2];
static pid_t holders[PROC_HOLDERS_MAX];
static size_t nholders;
static bool jailed;

void proc_jailed(void)
{
	jailed = true;
}

void proc_exempt(pid_t one, pid_t two)
{
	exempt[0] = one;
	exempt[1] = two;
}

static bool is_exempt(pid_t pid)
{
	return pid == exempt[0] || pid == exempt[1];
}

void proc_hold(pid_t pid)
{
	assert(nholders < ARRAY_SIZE(holders));
	holders[nholders++] = pid;
}

static pid_t *holder_find(pid_t pid)
{
	for (size_t i = 0; i < nholders; i++) {
		if (holders[i] == pid)
			return &holders[i];
	}
	return NULL;
}

void proc_let_go(pid_t pid)
{
	pid_t *h = holder_find(pid);

	if (h)
		*h = holders[--nholders];
}

/* Leaves those that are user code. */
static void set_filter(struct proc_set *set)
{
	size_t kept = 0;

	for (size_t i = 0; i < set->n; i++) {
		const struct proc *p = &set->v[i];

		if (p->ours && !is_exempt(p->pid) && !holder_find(p->pid))
			set->v[kept++] = *p;
	}
	set->n = kept;
}

ssize_t proc_text(const char *path, char *buf, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return n;
}

void proc_text_again(int fd, char *buf, size_t size)
{
	const ssize_t n = fd < 0 ? 0 : pread(fd, buf, size - 1, 0);

	buf[n > 0 ? n : 0] = '\0';
}

int proc_write(const char *path, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

DIR *proc_threads(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	return opendir(path);
}

pid_t proc_next(DIR *d)
{
	struct dirent *e;

	while ((e = readdir(d))) {
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			return (pid_t)strtol(e->d_name, NULL, 10);
	}
	return 0;
}

int proc_parse_stat(const char *text, struct proc_stat *ret_s)
{
	enum {
		PARENT = 4,
		FLAGS = 9,
		MINFLT = 10,
		MAJFLT = 12,
		UTIME = 14,
		STIME,
		CUTIME,
		CSTIME,
		THREADS = 20,
		START = 22,
		NFIELDS
	};
	unsigned long long field[NFIELDS] = {0};
	/* The name is in parentheses and may hold anything; the last ')' ends it. */
	const char *p = strrchr(text, ')');

	if (!p || p[1] != ' ' || !p[2])
		return -EINVAL;
	ret_s->state = p[2];
	p += 3;
	for (int i = PARENT; i < NFIELDS; i++) {
		char *end;

		field[i] = strtoull(p, &end, 10);
		if (end == p)
			return -EINVAL;
		p = end;
	}
	ret_s->parent = (pid_t)field[PARENT];
	ret_s->flags = (unsigned)field[FLAGS];
	ret_s->faults = field[MINFLT] + field[MAJFLT];
	ret_s->utime = field[UTIME];
	ret_s->stime = field[STIME];
	ret_s->cutime = field[CUTIME];
	ret_s->cstime = field[CSTIME];
	ret_s->threads = field[THREADS];
	ret_s->start = field[START];
	return 0;
}

int proc_read_stat(const char *path, struct proc_stat *ret_s)
{
	char buf[1024];
	const ssize_t n = proc_text(path, buf, sizeof(buf));

	return n < 0 ? (int)n : proc_parse_stat(buf, ret_s);
}

static int proc_look(pid_t pid, struct proc *ret_p)
{
	char path[32];
	struct proc_stat s;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	r = proc_read_stat(path, &s);
	if (r < 0)
		return r;
	*ret_p = (struct proc){.pid = pid, .parent = s.parent, .start = s.start};
	/* A leader that ended before its threads looks like a zombie and is not one. */
	ret_p->live = (s.state != 'Z' && s.state != 'X') || s.threads > 1;
	return 0;
}

pid_t proc_parent(pid_t pid)
{
	struct proc p;

	return proc_look(pid, &p) < 0 ? 0 : p.parent;
}

/* A zombie, all of whose threads have ended, says so. */
static bool is_running(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	return poll(&p, 1, 0) == 0;
}

bool proc_is(const struct proc *p)
{
	struct proc now;
	_cleanup_close_ int fd = -1;

	if (p->start)
		return proc_look(p->pid, &now) == 0 && now.start == p->start;
	fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	return fd >= 0 && is_running(fd);
}

static int set_add(struct proc_set *set, const struct proc *p)
{
	if (set->n == set->cap) {
		size_t cap = set->cap ? set->cap * 2 : 64;
		struct proc *v;

		if (cap > PROC_MAX)
			return -E2BIG;
		v = realloc(set->v, cap * sizeof(*v));
		if (!v)
			return -ENOMEM;
		set->v = v;
		set->cap = cap;
	}
	set->v[set->n++] = *p;
	return 0;
}

void proc_set_clear(struct proc_set *set)
{
	free(set->v);
	*set = (struct proc_set){0};
}

bool proc_set_has(const struct proc_set *set, pid_t pid, uint64_t start)
{
	for (size_t i = 0; i < set->n; i++) {
		if (set->v[i].pid == pid && set->v[i].start == start)
			return true;
	}
	return false;
}

void proc_set_remove(struct proc_set *set, pid_t pid, uint64_t start)
{
	size_t kept = 0;

	for (size_t i = 0; i < set->n; i++) {
		if (set->v[i].pid != pid || set->v[i].start != start)
			set->v[kept++] = set->v[i];
	}
	set->n = kept;
}

bool proc_set_has_pid(const struct proc_set *set, pid_t pid)
{
	for (size_t i = 0; i < set->n; i++) {
		if (set->v[i].pid == pid)
			return true;
	}
	return false;
}

struct proc *proc_set_find(struct proc_set *set, pid_t pid)
{
	size_t low = 0, high = set->n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (set->v[mid].pid < pid)
			low = mid + 1;
		else
			high = mid;
	}
	return low < set->n && set->v[low].pid == pid ? &set->v[low] : NULL;
}

static int by_pid(const void *a, const void *b)
{
	const struct proc *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Marks what descends from the agent. Parents need not come before children, so this repeats until
 * nothing changes; in practice twice. */
static void mark_ours(struct proc_set *set)
{
	pid_t self = getpid();
	bool changed = true;

	while (changed) {
		changed = false;
		for (size_t i = 0; i < set->n; i++) {
			struct proc *p = &set->v[i];
			const struct proc *parent;

			if (p->ours || p->pid == self)
				continue;
			parent = proc_set_find(set, p->parent);
			if (p->parent != self && !(parent && parent->ours))
				continue;
			p->ours = changed = true;
			p->holder = holder_find(p->parent) ? p->parent
				    : parent		   ? parent->holder
							   : 0;
		}
	}
}

/* The highest number that a process may have: those that were given, or, if they began again, all. */
static pid_t highest(void)
{
	static pid_t last;
	static bool again;
	const pid_t now = proc_last_pid();
	char buf[32] = "";

	again = again || now < last || !now;
	last = now;
	if (!again)
		return now;
	return proc_text("/proc/sys/kernel/pid_max", buf, sizeof(buf)) < 0
		       ? PID_LIMIT
		       : (pid_t)strtol(buf, NULL, 10);
}

/* Adds one that /proc did not list, if there is one: it is hidden, or new. */
static int add_unlisted(struct proc_set *set, pid_t pid)
{
	struct proc p = {.pid = pid, .parent = getpid(), .live = true};
	_cleanup_close_ int fd =
		(int)syscall(SYS_pidfd_open, pid, 0); /* which takes no thread for a process */

	return fd >= 0 && (proc_look(pid, &p) == 0 || is_running(fd)) ? set_add(set, &p) : 0;
}

/* Gives hidden ones that are children of @p their parent. */
static void claim_children(struct proc_set *set, const struct proc *p, pid_t tid)
{
	_cleanup_file_ FILE *f = NULL;
	char path[64];
	int pid;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", p->pid, tid);
	f = fopen(path, "re");
	while (f && fscanf(f, "%d", &pid) == 1) {
		struct proc *child = proc_set_find(set, pid);

		if (child && !child->start)
			child->parent = p->pid;
	}
}

/* Whose child a hidden one is its parent's list tells, where the kernel has lists and the parent is not hidden as well; at
 * the latest when that has ended, and it is a holder's. */
static void find_parents(struct proc_set *set)
{
	for (size_t i = 0; i < set->n; i++) {
		const struct proc *p = &set->v[i];
		_cleanup_dir_ DIR *d = p->start ? proc_threads(p->pid) : NULL;
		pid_t tid;

		while (d && (tid = proc_next(d)))
			claim_children(set, p, tid);
	}
}

static int add_hidden(struct proc_set *set)
{
	const size_t listed = set->n;
	const pid_t end = highest();
	size_t at = 0;
	int r = 0;

	for (pid_t pid = 2; r == 0 && pid <= end; pid++) {
		while (at < listed && set->v[at].pid < pid)
			at++;
		if (at == listed || set->v[at].pid != pid)
			r = add_unlisted(set, pid);
	}
	if (set->n > listed) {
		qsort(set->v, set->n, sizeof(*set->v), by_pid);
		find_parents(set);
	}
	return r;
}

/* Of one thread: what there was room for. */
static ssize_t children_text(pid_t pid, pid_t tid, char *buf, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, tid);
	return proc_text(path, buf, size);
}

/* The next one of such a list; 0 at its end, where one may have been cut. */
static pid_t next_child(const char **p)
{
	char *end;
	const long pid = strtol(*p, &end, 10);

	if (end == *p || *end != ' ')
		return 0;
	*p = end;
	return (pid_t)pid;
}

/* The parent of the kernel's threads never ends. */
static bool has_kernel_threads(void)
{
	static int known = -1;
	struct proc_stat s;
	char path[32];

	if (known < 0 && proc_is_whole()) {
		snprintf(path, sizeof(path), "/proc/%d/stat", KTHREADD);
		known = proc_read_stat(path, &s) == 0 && (s.flags & KERNEL_THREAD);
	}
	return known > 0;
}

/* Lists threads of the kernel, in a machine. Most processes there are some, and what is said of them is half of what a scan
 * takes. What is left out here is looked at, and costs time. Return: how many. */
static size_t kernel_threads(pid_t *v, size_t max)
{
	char buf[8192] = "";
	const char *p = buf;
	size_t n = 0;

	if (!has_kernel_threads() || children_text(KTHREADD, KTHREADD, buf, sizeof(buf)) < 0)
		return 0;
	while (n < max && (v[n] = next_child(&p)))
		n++;
	return n;
}

/* Both lists go up, but for a thread that came when numbers began again. */
static bool skips(const pid_t *v, size_t n, size_t *at, pid_t pid)
{
	while (*at < n && v[*at] < pid)
		++*at;
	return *at < n && v[*at] == pid;
}

int proc_scan(struct proc_set *set)
{
	_cleanup_dir_ DIR *d = opendir("/proc");
	pid_t pid, kernel[512];
	size_t nkernel, at = 0;
	int r = 0;

	if (!d)
		return -errno;
	set->n = 0;
	set->as_of = now_us();
	nkernel = kernel_threads(kernel, ARRAY_SIZE(kernel));
	while (r == 0 && (pid = proc_next(d))) {
		struct proc p;

		if (skips(kernel, nkernel, &at, pid))
			continue;
		/* One that ended since is not an error. */
		if (proc_look(pid, &p) == 0)
			r = set_add(set, &p);
	}
	if (r < 0)
		return r;
	if (set->n)
		qsort(set->v, set->n, sizeof(*set->v), by_pid);
	r = jailed ? add_hidden(set) : 0;
	if (r < 0)
		return r;
	mark_ours(set);
	set_filter(set);
	return 0;
}

/* Where many ask at the same time, as those who end many jobs, one scan is for all; and emulated, or in a jail whose
 * numbers are the host's, there is time for something else between two. */
int proc_scan_lately(struct proc_set *set)
{
	static struct proc_set last;
	static uint64_t ended;
	const uint64_t took = ended - last.as_of;
	int r = 0;

	if (took < SLOW_US || now_us() - ended > took) {
		r = proc_scan(&last);
		ended = r == 0 ? now_us() : last.as_of;
	}
	set->n = 0;
	set->as_of = last.as_of;
	for (size_t i = 0; r == 0 && i < last.n; i++)
		r = set_add(set, &last.v[i]);
	set_filter(set); /* a spare may have come meanwhile */
	return r;
}

/* Adds the children of one thread. @holder: They are below this one, or 0. */
static int children_of(struct proc_set *set, pid_t pid, pid_t tid, pid_t holder)
{
	char buf[4096] = "";
	const char *p = buf;
	const ssize_t n = children_text(pid, tid, buf, sizeof(buf));
	pid_t next;
	int r = 0;

	if (n < 0)
		return n == -ENOENT || n == -ESRCH ? 0 : (int)n;
	if ((size_t)n == sizeof(buf) - 1)
		return -E2BIG; /* too many for the fast way */
	while (r == 0 && (next = next_child(&p))) {
		struct proc child;

		if (is_exempt(next) || proc_look(next, &child) < 0)
			continue;
		child.ours = true;
		child.holder = holder;
		r = set_add(set, &child);
	}
	return r;
}

static int children_of_all(struct proc_set *set, pid_t pid, pid_t holder)
{
	_cleanup_dir_ DIR *d = proc_threads(pid);
	pid_t tid;
	int r = 0;

	if (!d)
		return errno == ENOENT ? 0 : -errno;
	while (r == 0 && (tid = proc_next(d)))
		r = children_of(set, pid, tid, holder);
	return r;
}

int proc_children(struct proc_set *set)
{
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	if (access(path, R_OK) < 0)
		return proc_scan(set);
	set->n = 0;
	r = children_of_all(set, getpid(), 0);
	for (size_t i = 0; r == 0 && i < set->n; i++) {
		const pid_t pid = set->v[i].pid;

		r = children_of_all(set, pid, holder_find(pid) ? pid : set->v[i].holder);
	}
	if (r < 0)
		return proc_scan(set);
	set_filter(set);
	return 0;
}

uint32_t proc_exit_status(int wait_status)
{
	return WIFSIGNALED(wait_status) ? PROTO_STATUS_SIGNAL + (uint32_t)WTERMSIG(wait_status)
					: (uint32_t)WEXITSTATUS(wait_status);
}

/* A line of /proc/PID/maps: addresses, permissions, offset, major:minor. */
static bool is_shared_map(const char *line, dev_t dev)
{
	unsigned major, minor;
	char mode[5];

	return sscanf(line, "%*x-%*x %4s %*x %x:%x", mode, &major, &minor) == 3 && mode[1] == 'w' &&
	       mode[3] == 's' && (!dev || makedev(major, minor) == dev);
}

bool proc_maps_shared(pid_t pid, dev_t dev)
{
	char path[32], line[PATH_MAX + 128];
	bool found = false;
	FILE *f;

	if (pid <= 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return errno != ENOENT;
	while (!found && fgets(line, sizeof(line), f))
		found = is_shared_map(line, dev);
	fclose(f);
	return found;
}

uint64_t proc_private_kib(pid_t pid)
{
	unsigned long long resident = 0, shared = 0;
	char path[32], buf[128];

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	if (proc_text(path, buf, sizeof(buf)) < 0 ||
	    sscanf(buf, "%*u %llu %llu", &resident, &shared) != 2 || shared > resident)
		return 0;
	return (resident - shared) * ((uint64_t)sysconf(_SC_PAGESIZE) / 1024);
}

/* Reads a file of /proc that is asked for again and again, through a descriptor kept open. */
static bool read_kept(int *fd, const char *path, char *buf, size_t size)
{
	if (*fd < 0)
		*fd = open(path, O_RDONLY | O_CLOEXEC);
	proc_text_again(*fd, buf, size);
	return *buf;
}

uint64_t proc_number(const char *path, const char *key, int base)
{
	_cleanup_file_ FILE *f = fopen(path, "re");
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, strlen(key)) == 0)
			return strtoull(line + strlen(key), NULL, base);
	}
	return 0;
}

pid_t proc_last_pid(void)
{
	static int fd = -1;
	char buf[128];
	const char *last;

	if (!read_kept(&fd, "/proc/loadavg", buf, sizeof(buf)))
		return 0;
	last = strrchr(buf, ' ');
	return last ? (pid_t)strtol(last + 1, NULL, 10) : 0;
}

bool proc_is_whole(void)
{
	return getpid() == 1 && !jailed;
}

bool proc_forked_since(pid_t newest)
{
	return getpid() == 1 && proc_last_pid() != newest;
}

uint64_t proc_oom_kills(void)
{
	static int fd = -1;
	char buf[16384];
	const char *line;

	if (!read_kept(&fd, "/proc/vmstat", buf, sizeof(buf)))
		return 0;
	line = strstr(buf, "\noom_kill ");
	return line ? strtoull(line + 10, NULL, 10) : 0;
}
