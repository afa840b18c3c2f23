/* SPDX-License-Identifier: Apache-2.0 */
/* Standing still. See still.h. */
#include "still.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent.h"
#include "lease.h"
#include "agent/core/log.h"
#include "agent/core/proc.h"
#include "agent/core/util.h"

#define LOOK_US		1000u /* doubled each time */
#define LOOKS_MAX	7u    /* 127 ms in all */

#define SIGNAL_BIT(sig) (1ull << ((sig)-1))
#define SIGNAL_FIRST_RT 34 /* those before are the C library's own */
#define TCP_TIME_WAIT \
	6u /* of a connection that has ended: the kernel remembers it, nobody else does */

/* Why the machine goes on; NULL: it need not. */
typedef const char *still_why;

static const char computes[] = "an interpreter computes"; /* which may be over soon */

/* ---- threads ---- */

/* How a system call's wait can be limited. */
enum limit {
	LIMIT_NONE, /* it can't */
	LIMIT_TIME, /* by a pointer to a time, NULL is no limit */
	LIMIT_MS,   /* by a number, negative is no limit */
};

/* What a thread may wait in until somebody else does something. */
static const struct wait {
	long call;
	enum limit limit;
	unsigned arg; /* the number of the argument that limits it */
} waits[] = {
	{SYS_futex, LIMIT_TIME, 3},
	{SYS_recvmsg, LIMIT_NONE, 0},
	{SYS_recvfrom, LIMIT_NONE, 0},
	{SYS_recvmmsg, LIMIT_TIME, 4},
	{SYS_read, LIMIT_NONE, 0},
	{SYS_readv, LIMIT_NONE, 0},
	{SYS_write, LIMIT_NONE, 0},
	{SYS_accept, LIMIT_NONE, 0},
	{SYS_accept4, LIMIT_NONE, 0},
	{SYS_ppoll, LIMIT_TIME, 2},
	{SYS_pselect6, LIMIT_TIME, 4},
	{SYS_epoll_pwait, LIMIT_MS, 3},
	{SYS_epoll_pwait2, LIMIT_TIME, 3},
	{SYS_rt_sigtimedwait, LIMIT_TIME, 2},
	{SYS_rt_sigsuspend, LIMIT_NONE, 0},
	{SYS_wait4, LIMIT_NONE, 0},
	{SYS_waitid, LIMIT_NONE, 0},
	{SYS_flock, LIMIT_NONE, 0},
	{SYS_fcntl, LIMIT_NONE, 0},
#ifdef SYS_poll
	{SYS_poll, LIMIT_MS, 2},
	{SYS_select, LIMIT_TIME, 4},
	{SYS_epoll_wait, LIMIT_MS, 3},
	{SYS_pause, LIMIT_NONE, 0},
#endif
};

/* By a line of /proc/PID/task/TID/syscall: why the thread would go on by itself, or NULL. @tells: somebody else tells of
 * user code's timers. */
static still_why judge_call(const char *text, bool tells)
{
	uint64_t call, arg[6];

	if (sscanf(text,
		   "%" SCNu64 " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64
		   " 0x%" SCNx64,
		   &call, &arg[0], &arg[1], &arg[2], &arg[3], &arg[4], &arg[5]) != 7)
		return computes;
	for (size_t i = 0; i < ARRAY_SIZE(waits); i++) {
		const struct wait *w = &waits[i];

		if (call != (uint64_t)w->call)
			continue;
		if (tells || w->limit == LIMIT_NONE || (w->limit == LIMIT_TIME && !arg[w->arg]) ||
		    (w->limit == LIMIT_MS && (int32_t)arg[w->arg] < 0))
			return NULL;
		return "a thread of an interpreter waits for a limited time";
	}
	return "a thread of an interpreter sleeps, or is at work in the kernel";
}

static still_why judge_thread(pid_t pid, pid_t tid, bool tells)
{
	char path[64], text[256];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	n = proc_text(path, text, sizeof(text));
	if (n == -ENOENT || n == -ESRCH)
		return NULL; /* it has just ended */
	return n < 0 ? "the kernel does not tell where an interpreter waits"
		     : judge_call(text, tells);
}

/* Bun calls the thread of each that. */
static bool is_worker(pid_t pid, pid_t tid)
{
	char path[64], name[32];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
	return proc_text(path, name, sizeof(name)) > 0 && strncmp(name, "Worker", 6) == 0;
}

static still_why judge_threads(const struct interp *i)
{
	_cleanup_dir_ DIR *d = proc_threads(i->pid);
	still_why why = NULL;
	pid_t tid;

	while (d && !why && (tid = proc_next(d))) {
		why = judge_thread(i->pid, tid, i->can_tell);
		if (!why && i->can_tell && is_worker(i->pid, tid))
			why = "an interpreter has a worker";
	}
	return why;
}

/* ---- timers ---- */

/* Does one that sends a signal do something? Who does not catch it is ended by it, or not at all. */
static bool catches_timers(const struct interp *i)
{
	const uint64_t timers = SIGNAL_BIT(SIGALRM) | SIGNAL_BIT(SIGVTALRM) | SIGNAL_BIT(SIGPROF) |
				~(SIGNAL_BIT(SIGNAL_FIRST_RT) - 1);
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)i->pid);
	return proc_number(path, "SigCgt:", 16) & timers;
}

/* Is it a timerfd that will fire? */
static bool is_armed(pid_t pid, const char *name)
{
	unsigned long long s = 0, ns = 0;
	char path[64], text[512], *at;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%.12s", pid, name);
	n = readlink(path, text, sizeof(text) - 1);
	if (n < 0)
		return false;
	text[n] = '\0';
	if (strcmp(text, "anon_inode:[timerfd]") != 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.12s", pid, name);
	if (proc_text(path, text, sizeof(text)) < 0)
		return false;
	at = strstr(text, "it_value: (");
	return at && sscanf(at, "it_value: (%llu, %llu)", &s, &ns) == 2 && (s || ns);
}

static bool has_armed(pid_t pid)
{
	_cleanup_dir_ DIR *d = NULL;
	struct dirent *e;
	char path[32];
	bool armed = false;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && !armed && (e = readdir(d)))
		armed = e->d_name[0] != '.' && is_armed(pid, e->d_name);
	return armed;
}

/* ---- all of it ---- */

static still_why judge_interp(const struct interp *i)
{
	still_why why;

	if (i->state == INTERP_NONE || !i->touched)
		return NULL;
	if (i->can_tell && rest_look(&i->rest) != REST_THERE)
		return computes;
	if (i->timers > 0)
		return "an interpreter has set timers";
	why = judge_threads(i);
	if (why)
		return why;
	return catches_timers(i) || has_armed(i->pid) ? "an interpreter waits for a timer" : NULL;
}

/* Is there a process that is no interpreter? */
static bool has_others(const struct agent *a)
{
	struct proc_set set = {0};
	bool others = proc_children(&set) < 0;

	for (size_t n = 0; n < set.n && !others; n++) {
		bool known = !set.v[n].live;

		for (size_t i = 0; !known && i < ARRAY_SIZE(a->spares.slots); i++)
			known = a->spares.slots[i].pid == set.v[n].pid;
		others = !known;
	}
	proc_set_clear(&set);
	return others;
}

/* Does a table of /proc/net, which begins with a heading, list a socket that is somebody's? */
static bool lists_socket(const char *path)
{
	_cleanup_file_ FILE *f = fopen(path, "re");
	char line[512];
	unsigned state;

	if (!f || !fgets(line, sizeof(line), f))
		return false; /* this kernel has no IPv6 */
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %*s %*s %x", &state) == 1 && state != TCP_TIME_WAIT)
			return true;
	}
	return false;
}

static bool has_sockets(void)
{
	static const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6", "/proc/net/udp",
					     "/proc/net/udp6"};

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		if (lists_socket(tables[i]))
			return true;
	}
	return false;
}

/* What is expensive to find out comes last. */
static still_why judge(const struct agent *a)
{
	still_why why = NULL;

	if (has_others(a))
		return "a program was left in the background";
	for (size_t i = 0; i < ARRAY_SIZE(a->spares.slots) && !why; i++)
		why = judge_interp(&a->spares.slots[i]);
	if (!why && has_sockets())
		why = "a socket is open";
	return why;
}

/* Asks interpreters that can tell of their timers. Return: whether an answer is due. */
static bool ask_interps(struct agent *a)
{
	bool due = false;

	for (size_t n = 0; n < ARRAY_SIZE(a->spares.slots); n++) {
		struct interp *i = &a->spares.slots[n];

		if (i->state == INTERP_NONE || !i->touched || !i->can_tell)
			continue;
		if (!a->asked_timers && !interp_ask_timers(i))
			i->timers = 1; /* nobody knows */
		due = due || i->timers < 0;
	}
	a->asked_timers = true;
	return due;
}

static void answer(struct agent *a, still_why why)
{
	struct frame *f = frame_new(PROTO_RESTING, a->resting.id, 8 + PROTO_RESTING_MAX);

	log_trace("%s%s", why ? "the machine goes on: " : "the machine may stand still",
		  why ? why : "");
	a->resting.due = false;
	if (!f)
		return;
	put_u32(&f->out, !why);
	put_str(&f->out, proto_cstr(why ? why : ""));
	conn_send(&a->conn, f);
}

/* agent_advance() goes on. */
static void on_again(struct loop_timer *t)
{
	(void)t;
}

/* Answers, or looks again a little later: who has just answered is on his way back to where he waits, and where there is
 * one processor he gets there when we sleep. */
static void advance_question(struct agent *a)
{
	const still_why why = judge(a);

	if (why == computes && a->agains < LOOKS_MAX) {
		a->again.fire = on_again;
		loop_arm(&a->loop, &a->again, LOOK_US << a->agains++);
	} else {
		answer(a, why);
	}
}

void still_ask(struct agent *a, uint32_t id)
{
	a->agains = 0;
	a->resting = (struct debt){true, id};
	a->asked_timers = false;
}

void still_drop(struct agent *a)
{
	a->resting.due = false;
	loop_disarm(&a->loop, &a->again);
}

void still_advance(struct agent *a)
{
	if (!a->resting.due || a->loop.timers)
		return;
	if (a->freezer.state == FREEZER_FROZEN)
		answer(a, NULL);
	else if (lease_is_settled(a) && !ask_interps(a))
		advance_question(a);
}
