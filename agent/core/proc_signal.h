/* SPDX-License-Identifier: Apache-2.0 */
/* Stopping, terminating and killing the processes of user code. */
#ifndef XSBX_AGENT_CORE_PROC_SIGNAL_H
#define XSBX_AGENT_CORE_PROC_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_scope;
struct proc_set;

/* A process that does not stand still. */
struct proc_runner {
	pid_t pid;
	uint64_t start; /* of struct proc */
	char state;	/* by /proc/PID/stat, of the first thread that runs; 0: nobody can see it */
	uint64_t switches; /* proc_switches() of it */
};

/**
 * proc_kill() - Stop, then kill, user code
 * @scope: Which; NULL: all
 * @ret_as_of: now_us(); whoever came into being later may not have been found
 *
 * Everything is stopped before anything is killed, so that nothing escapes by forking. Processes
 * forked in the meantime are found by the next call: repeat until it returns 0.
 *
 * Return: number of live processes in the scope, or -errno.
 */
int proc_kill(const struct proc_scope *scope, uint64_t *ret_as_of);

/** proc_ask() - Send SIGTERM to user code. Return: number of processes that were signalled, or -errno. */
int proc_ask(const struct proc_scope *scope);

/**
 * proc_count() - Count the live processes of user code
 * @scope: Which; NULL: all
 * @one: A process that is not counted, or 0
 *
 * Return: the number, or -errno.
 */
int proc_count(const struct proc_scope *scope, pid_t one);

#define PROC_CHASED 16 /* most processes that proc_chase() stops */

/**
 * proc_chase() - Stop the newest process, until there is no newer one
 * @ret_fds: Filled with PROC_CHASED descriptors, -1 for none, for proc_chase_over()
 *
 * A chain of processes that each fork a child and exit is always ahead of a scan. This
 * gets the newest process id and sends SIGSTOP to it at once, whatever it is: the
 * following scan shows whether that was right. Does nothing unless we are PID 1.
 */
void proc_chase(int ret_fds[PROC_CHASED]);

/** proc_chase_over() - Continue those that still exist. */
void proc_chase_over(int fds[PROC_CHASED]);

/** proc_keep_stopped() - Leave those in a set that are stopped: each thread is, or is gone. */
void proc_keep_stopped(struct proc_set *set);

/**
 * proc_running() - How many processes of a set do not stand still
 * @before: They are to, so list, and call, until it is 0; if they were in this one, of those who stood still before, they
 *	are so no more. NULL: nobody is stopped
 * @ret_first: Who is the first of them, as it was found; untouched if there is none. Or NULL
 */
unsigned proc_running(const struct proc_set *set, struct proc_set *before,
		      struct proc_runner *ret_first);

/** proc_switches() - Context switches of all threads of these processes, and the number of threads:
 * a different sum means that something ran, or ended. */
uint64_t proc_switches(const struct proc_set *set);

/** proc_continue() - Continue the processes of one set, except those of another. */
void proc_continue(const struct proc_set *all, const struct proc_set *keep);

/** proc_continue_except() - Continue stopped user code, except the processes in a set. */
void proc_continue_except(const struct proc_set *keep);

/**
 * proc_untrace() - Let a child go on that has made us its tracer (PTRACE_TRACEME)
 * @pid: Child
 * @status: What waiting for it has told. That it stopped is told of such children only, without being asked for
 *
 * Return: false if it has ended.
 */
bool proc_untrace(pid_t pid, int status);

#endif
