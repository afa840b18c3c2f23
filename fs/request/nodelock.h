/* SPDX-License-Identifier: Apache-2.0 */
/* Locks on nodes that the daemon serves itself, between programs of the host. */
#ifndef XSBX_FS_REQUEST_NODELOCK_H
#define XSBX_FS_REQUEST_NODELOCK_H

#include "agent/files/lockbook.h"
#include "vm/base/record.h"

/*
 * A FUSE file system that supports locks receives lock requests for every node. Those below files/
 * are passed to the agent; for all others this lock book is the only record. An owner is the
 * kernel's id for a process or an open file. The memory for locks is divided between users.
 */

struct handle;
struct handles;
struct req;

void nodelock_init(struct lockbook *b);
/* What is locked through a handle: the node, or the file of a moment that was saved, of which each name is a node. */
struct lock_file nodelock_file(const struct handle *h);
/**
 * nodelock_serve() - Lock, unlock, or test for a conflicting lock
 * @b: Book
 * @h: Open handle
 * @req: Answered now, or when the lock is granted or the wait ends; NULL for an unlock that nobody waits for
 * @ask: File, handle and user are filled in here
 * @test_only: It is only asked for
 * @wait: Wait until it is granted
 */
void nodelock_serve(struct lockbook *b, const struct handle *h, struct req *req,
		    struct lock_ask *ask, bool test_only, bool wait);
/* A process has closed a descriptor: releases its ranges of this node. Return: whether it may have had any. */
bool nodelock_flush(struct lockbook *b, const struct handle *h, uint64_t owner);
/* The handle is closed: releases what was last locked through it. */
void nodelock_release(struct lockbook *b, const struct handle *h);
/* The same for all handles that are @is_of, by their id. */
void nodelock_release_all(struct lockbook *b, struct handles *hs,
			  bool (*is_of)(void *data, uint64_t handle), void *data);
/* Calls @fn for each lock, with the handle through which it was last taken. */
void nodelock_each(const struct lockbook *b, void (*fn)(void *data, const struct lock_ask *ask),
		   void *data);
/* Takes out who waits longest of those through handles that are @is_of, by their id. Return: his request, which the caller
 * answers; NULL: there is none. */
struct req *nodelock_take_wait(struct lockbook *b, bool (*is_of)(void *data, uint64_t handle),
			       void *data, struct lock_ask *ret_ask);
/* Ends all waits with @err. */
void nodelock_give_up(struct lockbook *b, int err);

/* For a daemon that comes after this one, whenever `relocked` of struct handles is set: appends
 * fields, for who holds a lock. Those who wait ask again. */
void nodelock_put(const struct lockbook *b, struct buf *out);
/* Likewise there. Return: 0, -EBADMSG, -ENOMEM. */
int nodelock_get(struct lockbook *b, struct record_reader fields);

/* Behind it, with all handles: drops locks of handles that there are none of, which nobody would
 * ever give back. Return: 0, or
 * -EBADMSG if there were any. */
int nodelock_check(struct lockbook *b, const struct handles *hs);

#endif
