/* SPDX-License-Identifier: Apache-2.0 */
/* The host's locks on files of the working directory, held for it as the kernel's own. */
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
 * Ranges are locked by F_OFD_SETLK and whole files by flock(2) on it, so it is the kernel that
 * decides between the host's owners and the processes of the sandbox. The book only mirrors what
 * the kernel gave, to know what to give back, to find deadlocks among the host's owners, and to
 * answer F_GETLK with a process of theirs.
 *
 * Who waits for another owner of the host is parked in the book, and tried again when that one lets
 * go. Who waits for a process of the sandbox needs a thread that blocks in the kernel, since
 * nothing else tells of an unlock, and trying now and then would lose against a busy file for ever.
 * A thread does nothing but that one call, on a descriptor of its own. It is interrupted by a signal,
 * again and again until it has ended, for the first may come before the call.
 *
 * What a thread has got may be gone again when that is heard: its owner let go of the range, or his
 * holder has another open file meanwhile. So it is taken anew, which the kernel does at once for who has
 * it, and if that fails the wait goes on. A wait that nobody wants any more leaves the kernel with what
 * the book says.
 *
 * A wait belongs to the handle it was asked by, as a lock does: another of its owner's handles may be closed
 * meanwhile. Its end is told in any case, for the host keeps its request until then.
 */

#define LOCKS_THREADS 128u /* of 16 KiB; who would need one more gets ENOLCK */

struct conn;

struct locks {
	struct lockbook book;
	struct loop *loop;
	struct conn *conn;
	int proc_fd; /* /proc/self/fd; the file server's */
	struct loop_source done;
	int done_fd; /* its other end: threads write the wait that has ended */
	struct loop_timer timer;
	unsigned nthreads;
};

int locks_init(struct locks *l, struct loop *loop, struct conn *conn, int proc_fd);
void locks_fini(struct locks *l);

/**
 * locks_lock() - Lock, unlock or convert
 * @l: Locks
 * @fd: Of the handle it was asked by
 * @rq: What is asked
 * @ret_waits: It waits, and LOCKED will tell
 *
 * Return: 0, -EAGAIN, -EDEADLK, -ENOLCK or another -errno.
 */
int locks_lock(struct locks *l, int fd, const struct proto_lock *rq, bool *ret_waits);

/**
 * locks_test() - What would be in the way
 * @l: Locks
 * @fd: Of the handle
 * @rq: What is asked; the answer is put into its type, start, end and pid
 *
 * Return: 0 or -errno.
 */
int locks_test(struct locks *l, int fd, struct proto_lock *rq);

/* The owner lets go of the file's ranges. */
void locks_drop(struct locks *l, int fd, uint64_t owner);
/* The handle is closed: what was locked by it ends. */
void locks_release(struct locks *l, uint64_t handle);
/* Ends a wait. @undo: or takes back what was granted, as if it had never been asked. */
void locks_cancel(struct locks *l, uint64_t token, bool undo);
/* The host is another one. */
void locks_clear(struct locks *l);

#endif
