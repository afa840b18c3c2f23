/* SPDX-License-Identifier: Apache-2.0 */
/* Locks on nodes that the daemon serves itself: among programs of this host. */
#ifndef XSBX_FS_REQUEST_NODELOCK_H
#define XSBX_FS_REQUEST_NODELOCK_H

#include "agent/files/lockbook.h"

/*
 * A kernel that was told that we know of locks asks for each, on every node. Those below files/ are
 * the agent's business; for the others this book is all there is. An owner is the kernel's number for
 * a process or an open file. What locks take of the daemon's memory is shared out among users.
 */

struct handle;
struct req;

void nodelock_init(struct lockbook *b);
/* @ask: file, handle and user are filled in here. Answers @req, now or when the lock is granted or the wait ends. */
void nodelock_set(struct lockbook *b, const struct handle *h, struct req *req, struct lock_ask *ask,
		  bool wait);
void nodelock_test(struct lockbook *b, const struct handle *h, struct req *req,
		   struct lock_ask *ask);
/* A process closes a descriptor: its ranges of this node go. */
void nodelock_flush(struct lockbook *b, const struct handle *h, uint64_t owner);
/* The handle goes, and what its owners locked by it last. */
void nodelock_release(struct lockbook *b, const struct handle *h);
/* Ends all waits with @err. */
void nodelock_give_up(struct lockbook *b, int err);

#endif
