/* SPDX-License-Identifier: Apache-2.0 */
/* A seccomp filter for user code, assembled by hand: the agent has no library for it. */
#ifndef XSBX_AGENT_CORE_FILTER_H
#define XSBX_AGENT_CORE_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#define FILTER_AGENT 0x01u /* calls that act on the agent as a process of the same user */
#define FILTER_KERNEL \
	0x02u /* risky calls into a guest's kernel; a jail has its own filter for these */
#define FILTER_FILTERS 0x04u /* installing further filters */
#define FILTER_INSIDES \
	0x10u /* other processes' descriptors and memory, which a jail's own filter leaves to the agent */
#define FILTER_LIMITS 0x08u /* limits of other processes, which may be threads of the agent */

/**
 * filter_confine() - Permanently deny system calls to this process and its descendants
 * @what: Which ones, bits of FILTER_*
 *
 * Needs no_new_privs. Return: 0, or -1 with errno.
 */
int filter_confine(unsigned what);

/**
 * filter_listen() - Have another process asked about this one's and its children's random bytes, opens to read, and
 * new processes
 *
 * What libraries draw random bytes from without asking the kernel (memory that may be dropped) they don't get.
 *
 * Return: the listener, close-on-exec, on which the other process hears (seccomp_unotify(2)); or -1 with errno.
 */
int filter_listen(void);

/**
 * filter_still_waits() - Does a call still wait for its answer?
 * @listener: On which it was heard
 * @id: Its number there
 *
 * Whoever made it may be killed meanwhile, and his number be another process's, whose memory is none of ours: ask behind each
 * read of it, and before each write to it.
 */
bool filter_still_waits(int listener, uint64_t id);

#endif
