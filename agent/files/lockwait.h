/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for locks: parked in the book, or in a thread that blocks in the kernel. See locks.h. */
#ifndef XSBX_AGENT_FILES_LOCKWAIT_H
#define XSBX_AGENT_FILES_LOCKWAIT_H

#include <pthread.h>
#include <stdatomic.h>

#include "locks.h"

/* One waiting LOCK request of the host. */
struct lock_wait {
	struct lock_waiter w; /* in the book */
	struct locks *locks;
	struct lock_holder *holder; /* counts it in `waits` */
	struct lock_spare spare;
	uint64_t token;
	bool silent;	/* no answer is sent */
	bool cancelled; /* it must not go on */
	bool undo;	/* nor end with success */
	bool moved;	/* the holder has another open file than `fd` */
	bool threaded;	/* `thread` is running, and owns `fd` and `result` */
	atomic_bool stop;
	pthread_t thread;
	int fd;
	int result;
};

int lockwait_init(struct locks *l);
void lockwait_fini(struct locks *l);
/* Starts waiting. Takes ownership of @spare on success. Return: 0 or -ENOLCK. */
int lockwait_begin(struct locks *l, struct lock_holder *h, const struct lock_ask *ask,
		   const struct proto_lock *rq, struct lock_spare *spare);
/* A lock was released: retries parked requests. */
void lockwait_wake(struct locks *l);
/* Ends a wait, with EINTR unless it is being granted right now. */
void lockwait_cancel(struct lock_wait *w);
/* The holder has another open file: its threads have to wait on that. */
void lockwait_move(struct locks *l, const struct lock_holder *h);

#endif
