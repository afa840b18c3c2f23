/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that are written: `in`, `stdin`; `ctl` and settings have files of their own. */
#ifndef XSBX_FS_TREE_INPUT_H
#define XSBX_FS_TREE_INPUT_H

#include "fs/request/handle.h"
#include "fs/session/node.h"

/*
 * Theory of operation: when a run starts
 * --------------------------------------
 * Each open of `in` for writing has a buffer of its own. Shells flush a descriptor several times (the
 * first time before there is any data, and again whenever a child that inherited it exits), so FLUSH
 * says nothing but that RELEASE may be near; the buffer becomes a run at RELEASE, which the kernel
 * sends when the last duplicate is closed. It arrives before anything else that the same program
 * asks afterwards, because there is one queue and one thread. But whoever has inherited the descriptor keeps it
 * open longer than that: so while there is code in an open `in`, the waiting nodes wait for what becomes of it,
 * see session_input_pending(), instead of showing the run before.
 *
 * A writer that dies of a signal is flushed and released like any other; at its FLUSH the kernel's
 * task flags show that it is on its way out, and what it wrote is thrown away.
 *
 * What can be refused is refused in OPEN or WRITE, because shells do not look at what close(2)
 * returns.
 */

struct session;

extern const struct handle_ops input_ops; /* in */
extern const struct handle_ops stdin_ops;

/* May these bytes be (more of) a program? Return: 0, -EFBIG, -EINVAL (a NUL byte); the session's `error` says why. */
int input_check(struct session *s, const void *data, size_t len, uint64_t offset);

/* The writer of `in` whose buffer is what `in` shows now, or NULL: then it is the last code. */
struct handle *input_writer(struct session *s);

/* Truncation by path: of the newest writer's buffer, else of the last code. Return: 0 or -errno. */
int input_truncate_path(const struct node *n, uint64_t size);

/* Is process @pid being killed by a signal? */
bool input_killed(pid_t pid);

#endif
