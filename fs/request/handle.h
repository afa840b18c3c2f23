/* SPDX-License-Identifier: Apache-2.0 */
/* Open handles: their table, and their operations. */
#ifndef XSBX_FS_REQUEST_HANDLE_H
#define XSBX_FS_REQUEST_HANDLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <time.h>

#include "touched.h"
#include "who.h"
#include "vm/base/buf.h"

struct req;
struct pollwait;
struct handle;
struct front;
struct fs;
struct job;
struct run;
struct session;
struct waitlist;

TAILQ_HEAD(polled_list, handle);

struct handle_ops {
	/* Called after the handle is created; an error undoes it. NULL: nothing to do. */
	int (*open)(struct handle *h);
	/* Answers @req now or later. @nonblock: the caller's O_NONBLOCK as of this read. */
	void (*read)(struct handle *h, struct req *req, size_t size, uint64_t offset,
		     bool nonblock);
	/* Return: 0 or -errno; all or nothing. */
	int (*write)(struct handle *h, const void *data, size_t size, uint64_t offset);
	/* The same, instead, where a write may wait: answers @req now or later. */
	void (*write_late)(struct handle *h, struct req *req, const void *data, size_t size,
			   uint64_t offset, bool nonblock);
	int (*truncate)(struct handle *h, uint64_t size);
	/* @killed: the caller is being killed by a signal. */
	int (*flush)(struct handle *h, bool killed);
	void (*release)(struct handle *h);
	/* Return: POLLIN and so on, at present. NULL: always ready. */
	unsigned (*poll)(struct handle *h);
	/* What opening, writing, flushing and closing change of a session is noted where it is
	 * changed (fs/session/touch.h). */
	bool notes;
};

/* A file that was saved, by which the sandbox that wakes with it has it. */
struct file_was {
	uint64_t number; /* its inode number; 0: not known */
	uint64_t size;
	struct timespec mtime;
	uint32_t length; /* of the path, with its end */
	char path[];	 /* from files/ on, without a slash at the beginning */
};

/*
 * - In the table from handle_new() until handle_free(); the kernel knows it as {index, generation}.
 * - `fs`, `s`, `front`, `job` and `r` are set by the opener and opaque here, and may be NULL;
 *   `disown` releases those that it has references to.
 * - Whoever changes what its record says (fs/handover/handles.c) calls handle_touch(). Each request
 *   through it does, and each read that is tried again; so that is for changes from elsewhere. Who
 *   changes bytes of `text` that are there already, and does not just append, calls
 *   handle_rewrite().
 */
struct handle {
	TAILQ_ENTRY(handle) link;      /* all open handles, newest first */
	LIST_ENTRY(handle) opened;     /* those of the same opener */
	LIST_ENTRY(handle) near;       /* those of the same bucket, by inode */
	TAILQ_ENTRY(handle) poll_link; /* on the `polled` of `waitlist` while `poll` is set */
	/* Writers of `in` and `stdin`: on the front's list of them; likewise readers of
	 * files.events. */
	TAILQ_ENTRY(handle) input_link;
	uint32_t index, generation;
	const struct handle_ops *ops;
	uint64_t ino;
	int flags;	       /* O_* of the open */
	struct opener *opener; /* charged for the memory of `text` */
	struct handles *all;
	struct fs *fs;
	struct session *s;
	struct front *front; /* of the session, or of the job */
	struct job *job;
	struct run *r;
	void (*disown)(struct handle *h);
	struct pollwait *poll;
	struct waitlist *waitlist; /* where its readers wait; set by its `open`; NULL: never */

	struct buf text; /* rendered text; data written so far; a directory's listing */
	bool dirty;	 /* a writer: there is something to commit */
	bool killed;	 /* the writer was killed by a signal: commit nothing */
	int failed;	 /* a write was refused, with this -errno: the program is incomplete */
	bool stream;	 /* opened while its size was unknown */
	bool duplex;	 /* it has no position: reads and writes do not wait for each other */
	bool cached;	 /* the current read fills the page cache, see op_read() */
	/* A waiting node: `r` is determined, or the list of changes is complete. files/: so is the listing. */
	bool bound;
	bool asked; /* the list of changes was requested */
	bool feeds; /* stdin, tty: it is one of the writers of `r` */
	/* Output: offset after the last byte read. files.changes: why there is no list. events:
	 * number of the first event of this open. files.events: see file_events.h, as for the next
	 * two. */
	uint64_t cursor;
	/* events: position of offset 0, and offset of the next sequential read. stdin: the same for
	 * writes; `expected` is the value of `stdin_taken` they refer to. */
	uint64_t base, expected;
	uint64_t deadline; /* uv_now() until which a read waits for the first data; 0: not set */
	uint64_t remote;   /* files/: the agent's handle */
	uint32_t epoch;	   /* files/: the sandbox it belongs to, or the checkpoint */
	bool packed;	   /* files/: of what was saved, and not the agent's */
	/* files/: an entry of the listing, and where in `text` it is. Not written down: it can be found again. */
	uint64_t entry;
	size_t entry_at;
	struct file_was *was; /* of a saved file, for files/reopen.c; or NULL */
	uint64_t
		file; /* likewise: the same for all names of a file, and in its `epoch` for no other one; or 0 */
	struct timespec mtime; /* writers: of the last write */
	struct who who;	 /* likewise: who has opened it, if that is to be known; see audit.h */
	uint64_t serial; /* in the order in which they were opened */
	uint64_t kh;	 /* by which the kernel knows who waits in poll(2); 0: nobody has */

	struct handle_record {
		struct touch touch;
		bool written;
		bool fixed; /* while it is read: it will have the operations of its node */
		/* So many bytes of `text` are as they were written down; while it is read: its
		 * length. */
		size_t same;
		uint32_t n; /* pieces of it that are written down */
	} record;
};

/* The user charged for open handles: the session's owner, or who opened them. Exists while there
 * are any. */
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
		uint32_t written; /* generation that is written down for it, once it was free */
	} * table;		  /* by index */
	uint32_t cap, nopen;
	uint32_t hint; /* no lower index is free */
	uint64_t last_serial;
	bool closed; /* the mount is ending: nothing waits any more */
	TAILQ_HEAD(open_list, handle) open;

	struct touched *touched; /* the mount's; NULL: nothing is written down */
	bool relocked;		 /* locks of theirs may have changed, see nodelock.h */
};

void handles_init(struct handles *hs);
void handles_fini(struct handles *hs);

/**
 * handle_new() - Put a handle into the table
 * @hs: Table
 * @like: Its ops, ino, flags, what is opaque, and disown; zeroes otherwise
 * @payer: Whose memory it takes
 *
 * The caller checks limits. Return: the handle, or NULL if out of memory; then @like's
 * references are the caller's still.
 */
struct handle *handle_new(struct handles *hs, const struct handle *like, uid_t payer);
/* One that was in the table of a daemon before this one, at @index of @generation. @like: likewise.
 * Return: 0, -EBADMSG: there is one, or can be none; -ENOMEM. */
int handle_revive(struct handles *hs, const struct handle *like, uid_t payer, uint32_t index,
		  uint32_t generation, struct handle **ret_h);
/* Of a free index: the next one there is of @generation. Return: 0, -EBADMSG, -ENOMEM. */
int handles_set_generation(struct handles *hs, uint32_t index, uint32_t generation);
/* All were revived: `open` is in the order of their serials, from the last on. Return: 0 or
 * -ENOMEM. */
int handles_sort(struct handles *hs);

/* Something of it changes that its record says: it is written down anew at the end of this turn.
 * Nothing, if nothing is. */
void handle_touch(struct handle *h);
/* Likewise: its text, from @offset on. Also if it gets shorter. */
void handle_rewrite(struct handle *h, size_t offset);

/* Return: the account of @uid's open handles, or NULL if there are none. */
struct opener *handle_opener(const struct handles *hs, uid_t uid);
void handle_free(struct handle *h);
uint64_t handle_id(const struct handle *h);
/* Of its user's memory; without the handle itself, of which there are so many at most. */
size_t handle_bytes(const struct handle *h);
size_t file_was_bytes(const struct file_was *was); /* or NULL */
/* Was it opened for writing? */
bool handle_writes(const struct handle *h);
/* Return: a handle of node @ino with these @ops (NULL: that can't know the size), or NULL. */
const struct handle *handle_find(const struct handles *hs, uint64_t ino,
				 const struct handle_ops *ops);
/* Is node @ino open by a handle of unknown size? */
bool handles_stream(const struct handles *hs, uint64_t ino);
/* Return: the handle, or NULL if @fh is stale. */
struct handle *handle_get(const struct handles *hs, uint64_t fh);

#endif
