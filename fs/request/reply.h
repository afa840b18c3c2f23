/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel requests and the answers to them, without libfuse's types. */
#ifndef XSBX_FS_REQUEST_REPLY_H
#define XSBX_FS_REQUEST_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>

/*
 * A request is answered by exactly one reply_*() call, which also frees it. Only ops.c and
 * reply.c know that it is a libfuse request; unit tests have their own reply.c.
 */
struct req;
struct pollwait;

struct req_ctx {
	uid_t uid;
	gid_t gid;
	pid_t pid; /* thread id in the daemon's PID namespace, or 0 */
};

void req_ctx(struct req *req, struct req_ctx *ret_ctx);

/* Calls @fn if the caller is interrupted before the answer; NULL cancels that. @fn may be called at once, and may answer the
 * request, but not come here for it: libfuse holds a lock meanwhile, which this takes. */
void req_on_interrupt(struct req *req, void (*fn)(struct req *req, void *data), void *data);

/* What the kernel may cache of a node, because it only changes through requests of the kernel. */
enum reply_keep {
	REPLY_KEEP_NOTHING,
	REPLY_KEEP_NAME,
	REPLY_KEEP_ATTR, /* the attributes, for as long as a path walk takes, or until kernel_drop_attr() */
	REPLY_KEEP_WALK, /* name and attributes, likewise */
	REPLY_KEEP_ALL,
};

struct reply_entry {
	uint64_t ino;
	struct stat st; /* if st_ino is 0, it is set from `ino` */
	enum reply_keep keep;
};

struct reply_open {
	uint64_t fh;
	bool stream;	/* not seekable, no pread(2) or sendfile(2) */
	bool duplex;	/* likewise, and without a position: offsets are 0 */
	bool direct_io; /* no page cache: the node changes behind the kernel's back */
	bool noflush;	/* close(2) needs no FLUSH */
};

/* @err: 0, or -errno. */
void reply_err(struct req *req, int err);
void reply_attr(struct req *req, const struct stat *st, enum reply_keep keep);
void reply_entry(struct req *req, const struct reply_entry *e);
void reply_create(struct req *req, const struct reply_entry *e, const struct reply_open *o);
void reply_open(struct req *req, const struct reply_open *o);
void reply_buf(struct req *req, const void *data, size_t size);
/* The same of bytes that follow from nothing in this daemon, and can be had again: that is said
 * before a commit, and kept nowhere. */
void reply_buf_at_once(struct req *req, const void *data, size_t size);
/* Is what is being said such an answer? For who passes it on. */
bool reply_is_at_once(void);
void reply_write(struct req *req, size_t size);
/* An extended attribute, asked for with @size bytes of room; 0: how long it is. */
void reply_xattr(struct req *req, const char *value, size_t len, size_t size);
void reply_readlink(struct req *req, const char *target);
void reply_statfs(struct req *req, const struct statvfs *st);
void reply_lseek(struct req *req, uint64_t offset);
void reply_poll(struct req *req, unsigned revents);
/* F_GETLK: the conflicting lock, with enum proto_lock_type; @end INT64_MAX: to the end of the
 * file. */
void reply_lock(struct req *req, int type, uint64_t start, uint64_t end, uint32_t pid);
/* Ends a request that has no answer (FORGET). */
void reply_none(struct req *req);

/**
 * reply_dirent() - Add an entry to the answer to READDIR
 * @req: Request
 * @buf: Answer so far
 * @cap: Size of @buf
 * @ret_len: Bytes used, advanced if the entry fits
 * @name: Name
 * @ino: Inode number to show
 * @type: S_IFMT bits
 * @next: Offset of the next entry
 *
 * Return: false if the entry does not fit.
 */
bool reply_dirent(struct req *req, char *buf, size_t cap, size_t *ret_len, const char *name,
		  uint64_t ino, uint32_t type, uint64_t next);

/* The kernel's end of the mount. */
struct kernel;

/* Attributes that the kernel may keep are not true any more; nothing, if @kernel is NULL. Safe
 * while requests on the node are not answered yet. */
void kernel_drop_attr(struct kernel *kernel, uint64_t ino);

/* poll(2): wakes up the pollers of the handle. */
void pollwait_notify(struct pollwait *pw);
void pollwait_free(struct pollwait *pw);

#endif
