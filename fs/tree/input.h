/* SPDX-License-Identifier: Apache-2.0 */
/* Writable nodes: `in`, `stdin`; `ctl` and settings have source files of their own. */
#ifndef XSBX_FS_TREE_INPUT_H
#define XSBX_FS_TREE_INPUT_H

#include "fs/request/handle.h"
#include "fs/session/node.h"

/*
 * Theory of operation: when a run starts
 * --------------------------------------
 * Each open of `in` for writing has its own buffer. Shells flush a descriptor several times (the
 * first time before there is any data, and again whenever a child that inherited it exits), so FLUSH
 * only means that RELEASE may follow soon; the buffer becomes a run at RELEASE, which the kernel
 * sends when the last duplicate is closed. It arrives before any later request of the same
 * program, because there is one queue and one thread. But a process that inherited the descriptor may keep it
 * open longer: so while an open `in` contains code, the waiting nodes wait until it becomes a run,
 * see session_input_pending(), instead of showing the previous run.
 *
 * A writer killed by a signal is flushed and released like any other; at its FLUSH the kernel's
 * task flags show that it is exiting, and what it wrote is discarded.
 *
 * Errors are reported in OPEN or WRITE where possible, because shells ignore the result of
 * close(2).
 */

struct session;

extern const struct handle_ops input_ops; /* in */
extern const struct handle_ops stdin_ops;

/* Can these bytes be (part of) a program? Return: 0, -EFBIG, -EINVAL (a NUL byte); the session's `error` says why. */
int input_check(struct session *s, const void *data, size_t len, uint64_t offset);

/* The writer of `in` whose buffer `in` shows now, or NULL: it shows the last code. */
struct handle *input_writer(struct session *s);

/* Truncates by path: the newest writer's buffer, else the last code. Return: 0 or -errno. */
int input_truncate_path(const struct node *n, uint64_t size);

/* Is process @pid being killed by a signal? */
bool input_killed(pid_t pid);

#endif
