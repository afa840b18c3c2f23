/* SPDX-License-Identifier: Apache-2.0 */
/* Which files user code tries to use, while somebody wants to learn that. Only in jails. */
#ifndef XSBX_AGENT_CORE_LEARN_H
#define XSBX_AGENT_CORE_LEARN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/protocol.h"

struct conn;
struct guest_env;

/*
 * Theory of operation
 * -------------------
 * Processes that are started while this is on get one more filter of system calls, by which those that name a file wait until
 * a thread of ours has looked at the name (seccomp_unotify(2)), and then go on in the kernel as they are. What is seen is
 * the name at that moment: another thread of the program could have changed it since. So this is no protection, and not
 * meant as one; and what is not asked for, as files that are inherited open, is not seen.
 *
 * The descriptor for that is made in the child, before it executes its program, and sent to the thread. Names are looked up as
 * we see them, in the same root; what the sandbox has of its own is left out. Each is told once.
 */

#define LEARN_PATHS 8192u      /* different ones at most */
#define LEARN_TEXT  (1u << 20) /* bytes of them */
#define LEARN_FDS   64u	       /* programs at a time; of more, those that come then are not seen */

/** learn_begin() - Programs that are started from now on are looked at. Return: 0 or -errno. */
int learn_begin(const struct guest_env *env);

/** learn_fd() - What a child needs for learn_enter(). Return: -1: nothing is learnt. */
int learn_fd(void);

/**
 * learn_enter() - In a child: have this process and its descendants looked at from now on
 * @fd: Where the thread hears of it
 *
 * Return: 0, or -1 with errno.
 */
int learn_enter(int fd);

/** learn_tell() - Send LEARNED with what is new, if there is anything. */
void learn_tell(struct conn *c);

#endif
