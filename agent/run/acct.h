/* SPDX-License-Identifier: Apache-2.0 */
/* Resource usage of a run: processor time and memory of the interpreter and its children. */
#ifndef XSBX_AGENT_RUN_ACCT_H
#define XSBX_AGENT_RUN_ACCT_H

#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <time.h>

/*
 * What is counted. Processor time: the interpreter's own (all threads), exact to the microsecond,
 * plus that of children that ended and were waited for during the run, as reported by the kernel
 * (in ticks of 10 ms). The split of the interpreter's own time between user and system is the
 * kernel's estimate. Not counted: background processes, and children that were not waited for.
 * Memory: the peak resident set of the interpreter itself during the run; if it died, also that
 * of its children.
 */

struct acct {
	/* Files in /proc of one process, kept open: opening costs more than reading. */
	pid_t pid;
	int stat_fd, status_fd, clear_fd;
	clockid_t clock;

	/* At acct_prepare(). */
	uint64_t faults, maxrss_kib;
	/* At acct_begin(), or before. */
	uint64_t own_us;	     /* processor time of the interpreter */
	uint64_t user_us, system_us; /* the kernel's split of the same */
	uint64_t child_user_us, child_system_us;
};

struct acct_cost {
	uint64_t user_us, system_us, maxrss_kib;
};

/** acct_init() - Prepare; nothing is open. */
void acct_init(struct acct *a);

/** acct_fini() - Close open files. */
void acct_fini(struct acct *a);

/**
 * acct_prepare() - Read the counters of a process, and reset its memory high-water mark
 * @a: Filled in; all 0 if the counters cannot be read
 * @pid: Interpreter
 *
 * Slow on an emulated processor: call it between runs, when nothing is waiting.
 */
void acct_prepare(struct acct *a, pid_t pid);

/**
 * acct_begin() - Start accounting for a run
 * @a: Result of acct_prepare(), for this process or another
 * @pid: Interpreter
 */
void acct_begin(struct acct *a, pid_t pid);

/**
 * acct_end() - Compute the usage since acct_begin(), for a live interpreter
 * @a: What acct_begin() noted
 * @ret_cost: The difference
 */
void acct_end(const struct acct *a, struct acct_cost *ret_cost);

/**
 * acct_end_dead() - The same for an interpreter that was reaped
 * @a: What acct_begin() noted
 * @ru: What wait4() said
 * @ret_cost: The difference
 */
void acct_end_dead(const struct acct *a, const struct rusage *ru, struct acct_cost *ret_cost);

#endif
