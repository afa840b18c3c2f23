/* SPDX-License-Identifier: Apache-2.0 */
/* Open handles: their table, and what can be done with each. */
#ifndef XSBX_FS_REQUEST_HANDLE_H
#define XSBX_FS_REQUEST_HANDLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <time.h>

#include "vm/base/buf.h"

struct req;
struct pollwait;
struct handle;
struct fs;
struct run;
struct session;
struct waitlist;

TAILQ_HEAD(polled_list, handle);

struct handle_ops {
	/* After the handle is made; an error undoes it. NULL: nothing to do. */
	int (*open)(struct handle *h);
	/* Answers @req now or later. @nonblock: the caller's O_NONBLOCK as of this read. */
	void (*read)(struct handle *h, struct req *req, size_t size, uint64_t offset,
		     bool nonblock);
	/* Return: 0 or -errno; all or nothing. */
	int (*write)(struct handle *h, const void *data, size_t size, uint64_t offset);
	int (*truncate)(struct handle *h, uint64_t size);
	/* @killed: the caller is dying of a signal. */
	int (*flush)(struct handle *h, bool killed);
	void (*release)(struct handle *h);
	/* Return: POLLIN and so on, as of now. NULL: always ready. */
	unsigned (*poll)(struct handle *h);
};

/*
 * - In the table from handle_new() until handle_free(); named to the kernel by {index, generation}.
 * - `fs`, `s` and `r` are whoever's who opened it, and `disown` gives the last two back, which may be NULL. Nothing of
 *   them is known here.
 */
struct handle {
	TAILQ_ENTRY(handle) link;	/* all open handles, newest first */
	LIST_ENTRY(handle) opened;	/* those of the same opener */
	LIST_ENTRY(handle) near;	/* those of the same bucket, by inode */
	TAILQ_ENTRY(handle) poll_link;	/* on the `polled` of `waits` while `poll` is set */
	TAILQ_ENTRY(handle) input_link; /* writers of `in`: on the session's list of inputs */
	uint32_t index, generation;
	const struct handle_ops *ops;
	uint64_t ino;
	int flags;	       /* O_* of the open */
	struct opener *opener; /* whose memory `text` takes */
	struct handles *all;
	struct fs *fs;
	struct session *s;
	struct run *r;
	void (*disown)(struct handle *h);
	struct pollwait *poll;
	struct waitlist *waits; /* where its readers wait; set by its `open`. NULL: they never do */

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
	struct handle_slot {
		struct handle *h; /* NULL: free */
		uint32_t generation;
	} * table; /* by index */
	uint32_t cap, nopen;
	uint32_t hint; /* no free index is below it */
	bool closed;   /* the mount ends: nothing waits any more */
	TAILQ_HEAD(open_list, handle) open;
};

void handles_init(struct handles *hs);
void handles_fini(struct handles *hs);

/**
 * handle_new() - Put a handle into the table
 * @hs: Table
 * @like: Its ops, ino, flags, fs, s, r and disown; zeroes otherwise
 * @payer: Whose memory it takes
 *
 * Whether there may be one more is the caller's affair. Return: the handle, or NULL for want of memory; then @like's
 * references are the caller's still.
 */
struct handle *handle_new(struct handles *hs, const struct handle *like, uid_t payer);
/* Return: who has handles open, or NULL if @uid has none. */
struct opener *handle_opener(const struct handles *hs, uid_t uid);
void handle_free(struct handle *h);
uint64_t handle_id(const struct handle *h);
/* Was it opened for writing? */
bool handle_writes(const struct handle *h);
/* Return: a handle of node @ino with these @ops (NULL: that can't know the size), or NULL. */
const struct handle *handle_find(const struct handles *hs, uint64_t ino,
				 const struct handle_ops *ops);
/* Is node @ino open by a handle that cannot know the size? */
bool handles_stream(const struct handles *hs, uint64_t ino);
/* Return: the handle, or NULL if @fh is stale. */
struct handle *handle_get(const struct handles *hs, uint64_t fh);

#endif
