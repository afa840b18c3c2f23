/* SPDX-License-Identifier: Apache-2.0 */
/* Stopping, asking and ending the processes of user code. */
#ifndef XSBX_AGENT_CORE_PROC_SIGNAL_H
#define XSBX_AGENT_CORE_PROC_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_set;

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

#define PROC_CHASED 16 /* most that proc_chase() stops */

/**
 * proc_chase() - Stop the newest process, until none is newer
 * @ret_fds: Filled with PROC_CHASED descriptors, -1 for none, for proc_chase_over()
 *
 * A process that forks and ends, and so its child, and the next, is another one by the time that a scan
 * comes to look at it. This asks for the newest number and sends SIGSTOP at once, to whomever it is: the
 * scan behind it tells whether it should have been. Does nothing unless we are PID 1.
 */
void proc_chase(int ret_fds[PROC_CHASED]);

/** proc_chase_over() - Let go on what is left of them. */
void proc_chase_over(int fds[PROC_CHASED]);

/** proc_scan_stopped() - As proc_scan(), of those that stand still: each thread is stopped, or gone. */
int proc_scan_stopped(struct proc_set *set);

/**
 * proc_running() - How many processes of user code do not stand still
 * @stop: They are to
 *
 * Return: number of them, or -errno; with @stop, call until it is 0.
 */
int proc_running(bool stop);

/** proc_switches() - How often the threads of all user code gave a processor back, and how many there are:
 * another sum means that something ran, or ended. Return: 0 or -errno. */
int proc_switches(uint64_t *ret_sum);

/** proc_continue_except() - Let user code go on that was stopped, but for those of a set. */
void proc_continue_except(const struct proc_set *keep);

#endif
