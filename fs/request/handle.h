/* SPDX-License-Identifier: Apache-2.0 */
/* Open handles, the requests parked on them, and who polls them. */
#ifndef XSBX_FS_REQUEST_HANDLE_H
#define XSBX_FS_REQUEST_HANDLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <time.h>

#include "vm/base/buf.h"
#include "fs/session/node.h"

/*
 * Theory of operation: waiting
 * ----------------------------
 * A read that must wait is parked: its request is kept, with what is needed to try it again, on the
 * list of whatever it waits for (a session, or the events). Whenever something changes there,
 * wait_wake() takes all of them off the list first and then tries each again, so a retry may park
 * itself anew, or answer, or free things, without upsetting the walk. An interrupted request is
 * taken off and answered with EINTR; that is also what makes its reader killable. wait_flush()
 * answers all with one error when the thing waited for ends.
 *
 * poll(2) is the same idea with one shot: the kernel's poll handle is kept until the next change,
 * used once, and thrown away; the kernel then asks again.
 */

struct req;
struct pollwait;
struct handle;
struct fs;

struct waiter {
	TAILQ_ENTRY(waiter) link;
	struct waitlist *list;
	struct req *req;
	struct handle *h;
	size_t size;
	uint64_t offset;
	uint64_t serial; /* another for each time that anything is parked */
};

TAILQ_HEAD(polled_list, handle);

struct waitlist {
	TAILQ_HEAD(waiter_list, waiter) waiters;
	struct polled_list polled;
	unsigned nwaiters;
};

struct handle_ops {
	/* After the handle is made; an error undoes it. NULL: nothing to do. */
	int (*open)(struct fs *fs, struct handle *h, const struct node *n);
	/* Answers @req now or later. @nonblock: the caller's O_NONBLOCK as of this read. */
	void (*read)(struct fs *fs, struct handle *h, struct req *req, size_t size, uint64_t offset,
		     bool nonblock);
	/* Return: 0 or -errno; all or nothing. */
	int (*write)(struct fs *fs, struct handle *h, const void *data, size_t size,
		     uint64_t offset);
	int (*truncate)(struct fs *fs, struct handle *h, uint64_t size);
	/* @killed: the caller is dying of a signal. */
	int (*flush)(struct fs *fs, struct handle *h, bool killed);
	void (*release)(struct fs *fs, struct handle *h);
	/* Return: POLLIN and so on, as of now. NULL: always ready. */
	unsigned (*poll)(struct fs *fs, struct handle *h);
	/* Where readers of this handle wait. NULL: they never do. */
	struct waitlist *(*waits)(struct fs *fs, struct handle *h);
};

/*
 * - In the table from handle_new() until handle_free(); named to the kernel by {index, generation}.
 * - `s` and `r`, where set, are references.
 */
struct handle {
	TAILQ_ENTRY(handle) link;	/* all open handles, newest first */
	LIST_ENTRY(handle) opened;	/* those of the same opener */
	LIST_ENTRY(handle) near;	/* those of the same bucket, by inode */
	TAILQ_ENTRY(handle) poll_link;	/* on a waitlist's `polled` while `poll` is set */
	TAILQ_ENTRY(handle) input_link; /* writers of `in`: on the session's list of inputs */
	uint32_t index, generation;
	const struct handle_ops *ops;
	enum node_kind kind;
	uint64_t ino;
	int flags;	       /* O_* of the open */
	struct opener *opener; /* whose memory `text` takes */
	struct session *s;
	struct run *r;
	struct pollwait *poll;
	struct waitlist *poll_list;

	struct buf text; /* rendered text; what was written so far; a directory's listing */
	bool dirty;	 /* a writer: there is something to commit */
	bool killed;	 /* ... but the writer died of a signal: commit nothing */
	int failed;	 /* ... but a write was refused, with this -errno: it is no whole program */
	bool stream;	 /* opened while its size was not known */
	bool cached;	 /* the read that is being answered fills the page cache, see op_read() */
	bool bound;	 /* a waiting node: `r` is decided, or the list of changes is there */
	bool asked;	 /* for the list of changes */
	/* Output: the byte behind the last one read. files.changes: why there is no list. events: number of the first
	 * event of this open. */
	uint64_t cursor;
	/* events: where offset 0 is, and where the next read is if it reads on. stdin: the same for what is written,
	 * since what was there was taken for the time of the number `expected`. */
	uint64_t base, expected;
	uint64_t
		deadline; /* uv_now() until which a read waits for something to begin; 0: not set */
	uint64_t remote;  /* files/: the agent's handle */
	uint32_t epoch;	  /* files/: the sandbox it belongs to */
	struct timespec mtime; /* writers: of the last write */
};

/* Whose memory open handles take: the session's owner, or who opened them. There while he has any. */
struct opener {
	LIST_ENTRY(opener) link; /* of the same bucket */
	uid_t uid;
	uint32_t count;
	LIST_HEAD(, handle) handles;
};

#define HANDLE_BUCKETS 1024u

struct handles {
	LIST_HEAD(, opener) openers[HANDLE_BUCKETS]; /* by uid */
	LIST_HEAD(, handle) by_ino[HANDLE_BUCKETS];
	struct handle **table; /* by index; NULL where free */
	uint32_t *generation;
	uint32_t cap, nopen;
	uint32_t hint; /* no free index is below it */
	TAILQ_HEAD(open_list, handle) open;
};

void handles_init(struct handles *hs);
void handles_fini(struct fs *fs);

/* Return: a new handle in the table, or NULL for want of memory. Takes references on @n's session and run. Whether there
 * may be one more, quota_open() says. */
struct handle *handle_new(struct fs *fs, const struct node *n, const struct handle_ops *ops,
			  int flags);
/* Return: who has handles open, or NULL if @uid has none. */
struct opener *handle_opener(const struct handles *hs, uid_t uid);
void handle_free(struct fs *fs, struct handle *h);
uint64_t handle_id(const struct handle *h);
/* Return: a handle of node @ino with these @ops (NULL: that can't know the size), or NULL. */
const struct handle *handle_find(const struct fs *fs, uint64_t ino, const struct handle_ops *ops);
/* Is node @ino open by a handle that cannot know the size? */
bool handles_stream(const struct fs *fs, uint64_t ino);
/* Return: the handle, or NULL if @fh is stale. */
struct handle *handle_get(struct fs *fs, uint64_t fh);
/* Binds @h to @r (a reference) instead of what it was bound to; @r may be NULL. */
void handle_bind(struct handle *h, struct run *r);

void waitlist_init(struct waitlist *wl);

/* Keeps @req until the next wake of the handle's waitlist. */
void wait_park(struct fs *fs, struct handle *h, struct req *req, size_t size, uint64_t offset);
/* Likewise until somebody takes it off @wl. */
void wait_park_on(struct fs *fs, struct waitlist *wl, struct handle *h, struct req *req,
		  size_t size, uint64_t offset);
/* Takes a waiter off its list, and frees it. Return: its request, which is the caller's to answer. */
struct req *wait_unpark(struct waiter *w);
/* Something changed: tries every parked read again and wakes the pollers. */
void wait_wake(struct fs *fs, struct waitlist *wl);
/* Answers every parked read with @err (-errno) and wakes the pollers. */
void wait_flush(struct waitlist *wl, int err);
/* Remembers @pw (ownership passes) for the next wake, in place of an older one. */
void wait_poll(struct fs *fs, struct handle *h, struct pollwait *pw);

#endif
