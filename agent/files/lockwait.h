/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for locks: parked in the book, or in a thread that blocks in the kernel. See locks.h. */
#ifndef XSBX_AGENT_FILES_LOCKWAIT_H
#define XSBX_AGENT_FILES_LOCKWAIT_H

#include <pthread.h>
#include <stdatomic.h>

#include "locks.h"

/* One LOCK of the host that waits. */
struct lock_wait {
	struct lock_waiter w; /* in the book */
	struct locks *locks;
	struct lock_holder *holder; /* counts it in `waits` */
	struct lock_spare spare;
	uint64_t token;
	bool silent;	/* there is nobody to be answered */
	bool cancelled; /* it is not to go on */
	bool undo;	/* nor to end with success */
	bool moved;	/* the holder has another open file than `fd` */
	bool threaded;	/* `thread` runs, and owns `fd` and `result` */
	atomic_bool stop;
	pthread_t thread;
	int fd;
	int result;
};

int lockwait_init(struct locks *l);
void lockwait_fini(struct locks *l);
/* Begins to wait. Takes @spare on success. Return: 0 or -ENOLCK. */
int lockwait_begin(struct locks *l, struct lock_holder *h, const struct lock_ask *ask,
		   const struct proto_lock *rq, struct lock_spare *spare);
/* Somebody let go: tries those who are parked. */
void lockwait_wake(struct locks *l);
/* Ends a wait, with EINTR unless it is granted at this very moment. */
void lockwait_cancel(struct lock_wait *w);
/* The holder has another open file: its threads are to wait with that. */
void lockwait_move(struct locks *l, const struct lock_holder *h);

#endif
