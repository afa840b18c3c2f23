/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the processes of user code, and ending them. */
#ifndef XSBX_AGENT_PROC_H
#define XSBX_AGENT_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * User code is every descendant of the agent: as PID 1, or as a subreaper, the agent inherits
 * whatever detaches itself, so no descendant can leave. Nothing else is ever signalled. Exempt
 * are interpreters that have not been given any code yet.
 */

struct proc {
	pid_t pid, parent;
	uint64_t start; /* clock ticks since boot; with pid it names one process for ever */
	bool live;	/* not a zombie */
	bool ours;	/* descends from the agent */
	int fd;		/* while it is being ended */
};

/* What /proc/PID/stat says; times in clock ticks. */
struct proc_stat {
	char state;
	pid_t parent;
	uint64_t faults; /* of pages, by all threads so far */
	uint64_t utime, stime, cutime, cstime;
	uint64_t threads, start;
};

struct proc_set {
	struct proc *v;
	size_t n, cap;
};

/** proc_parse_stat() - Read the text of /proc/PID/stat. Return: 0 or -EINVAL. */
int proc_parse_stat(const char *text, struct proc_stat *ret_s);

/** proc_set_clear() - Empty a set and free its memory. */
void proc_set_clear(struct proc_set *set);

/** proc_exempt() - Name the two descendants that are not user code; 0 for none. */
void proc_exempt(pid_t one, pid_t two);

/**
 * proc_scan() - List the processes of user code
 * @set: Filled with every descendant of the agent, zombies included
 *
 * Return: 0 or -errno.
 */
int proc_scan(struct proc_set *set);

/**
 * proc_children() - As proc_scan(), faster, and possibly without children of a process that lost
 * others in the same moment
 */
int proc_children(struct proc_set *set);

/** proc_set_has() - True if this very process is in the set. */
bool proc_set_has(const struct proc_set *set, pid_t pid, uint64_t start);

/** proc_set_has_pid() - True if one of this number is, which may have ended since. */
bool proc_set_has_pid(const struct proc_set *set, pid_t pid);

/**
 * proc_kill_except() - Stop, then kill, all user code but some
 * @keep: Processes to be left alone, with all that descends from them; NULL for none
 * @not_kept: Process that is killed even if an ancestor of it is kept; 0 for none
 *
 * Everything is stopped before anything is killed, so that nothing forks away in between. What
 * forked in the meantime is found by the next call: call until it returns 0.
 *
 * Return: number of processes that were alive and not to be kept, or -errno.
 */
int proc_kill_except(const struct proc_set *keep, pid_t not_kept);

/**
 * proc_ask_except() - Ask all user code but some to end: SIGTERM
 * @keep, @not_kept: As for proc_kill_except()
 *
 * Return: number of processes that were asked, or -errno.
 */
int proc_ask_except(const struct proc_set *keep, pid_t not_kept);

/**
 * proc_count_except() - How many live processes of user code there are but for some
 * @keep, @not_kept: As for proc_kill_except()
 * @one: One more that is not counted, or 0
 *
 * Return: the number, or -errno.
 */
int proc_count_except(const struct proc_set *keep, pid_t not_kept, pid_t one);

/** proc_scan_stopped() - As proc_scan(), of those that stand still: each thread is stopped, or gone. */
int proc_scan_stopped(struct proc_set *set);

/**
 * proc_stop_running() - Stop all user code
 *
 * Return: number of processes that did not stand still yet, or -errno: call until it is 0.
 */
int proc_stop_running(void);

/** proc_switches() - How often the threads of all user code were given a processor, and how many there are:
 * another sum means that something ran, or ended. Return: 0 or -errno. */
int proc_switches(uint64_t *ret_sum);

/** proc_continue_except() - Let user code go on that was stopped, but for those of a set. */
void proc_continue_except(const struct proc_set *keep);

/** proc_number() - The number behind @key in a file of /proc, or 0. */
uint64_t proc_number(const char *path, const char *key);

/** proc_last_pid() - The newest process number, which changes with each fork; 0 if unknown. */
pid_t proc_last_pid(void);

/** proc_oom_kills() - How many processes the kernel killed for want of memory since boot. */
uint64_t proc_oom_kills(void);

/* Memory of a process that is not shared with a file or another process, or 0. */
uint64_t proc_private_kib(pid_t pid);

#endif
