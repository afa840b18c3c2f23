/* SPDX-License-Identifier: Apache-2.0 */
/* The host's locks on files of the working directory, held as locks of the guest's kernel. */
#ifndef XSBX_AGENT_FILES_LOCKS_H
#define XSBX_AGENT_FILES_LOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "lockbook.h"
#include "agent/core/loop.h"

/*
 * Theory of operation
 * -------------------
 * Each owner on the host has, for each file that it locks, an open file of its own here: a holder.
 * Ranges are locked by F_OFD_SETLK and whole files by flock(2) on it, so the kernel
 * arbitrates between the host's owners and the processes of the sandbox. The book only mirrors the
 * locks held in the kernel, to know what to release, to find deadlocks among the host's owners, and to
 * answer F_GETLK with a process of theirs.
 *
 * A request that waits for another owner of the host is parked in the book, and retried when that one
 * unlocks. A request that waits for a process of the sandbox needs a thread that blocks in the kernel,
 * because unlocks are not notified otherwise, and polling could starve on a busy file.
 * A thread makes only that one call, on a descriptor of its own. It is interrupted by a signal,
 * repeatedly until it has ended, because the first one may come before the call.
 *
 * When the end of a thread is processed, its lock may be obsolete: its owner has unlocked the range, or the
 * holder has another open file by now. So the lock is requested again, which succeeds at once if it is still
 * held, and if that fails the wait goes on. After a cancelled wait the kernel's locks are reset to those in
 * the book.
 *
 * A wait belongs to the handle it was requested through, as a lock does: other handles of its owner may be
 * closed meanwhile. Its end is always reported, because the host keeps its request until then.
 */

#define LOCKS_THREADS 128u /* of 16 KiB stack; beyond that requests fail with ENOLCK */

struct conn;

struct locks {
	struct lockbook book;
	struct loop *loop;
	struct conn *conn;
	int proc_fd; /* /proc/self/fd; the file server's */
	struct loop_source done;
	int done_fd; /* its other end: threads write a pointer to the ended wait */
	struct loop_timer timer;
	unsigned nthreads;
};

int locks_init(struct locks *l, struct loop *loop, struct conn *conn, int proc_fd);
void locks_fini(struct locks *l);

/**
 * locks_lock() - Lock, unlock or convert
 * @l: Locks
 * @fd: Of the handle it is requested through
 * @rq: The request
 * @ret_waits: It is waiting; LOCKED will be sent
 *
 * Return: 0, -EAGAIN, -EDEADLK, -ENOLCK or another -errno.
 */
int locks_lock(struct locks *l, int fd, const struct proto_lock *rq, bool *ret_waits);

/**
 * locks_test() - Test for a conflicting lock
 * @l: Locks
 * @fd: Of the handle
 * @rq: The request; its type, start, end and pid are set to the answer
 *
 * Return: 0 or -errno.
 */
int locks_test(struct locks *l, int fd, struct proto_lock *rq);

/* Releases all ranges of the file held by the owner. */
void locks_drop(struct locks *l, int fd, uint64_t owner);
/* The handle was closed: releases the locks taken through it. */
void locks_release(struct locks *l, uint64_t handle);
/* Ends a wait. @undo: if it was granted already, undoes that. */
void locks_cancel(struct locks *l, uint64_t token, bool undo);
/* A different host is connected. */
void locks_clear(struct locks *l);

#endif
