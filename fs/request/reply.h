/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the kernel and the answers to them, without libfuse's types. */
#ifndef XSBX_FS_REQUEST_REPLY_H
#define XSBX_FS_REQUEST_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>

/*
 * A request is answered by exactly one reply_*() call, which also ends its life. Only ops.c and
 * reply.c know that it is libfuse's; unit tests bring a reply.c of their own.
 */
struct req;
struct pollwait;

struct req_ctx {
	uid_t uid;
	gid_t gid;
	pid_t pid; /* thread id in the daemon's PID namespace, 0 if it has none there */
};

void req_ctx(struct req *req, struct req_ctx *ret_ctx);

/* Have @fn called if the caller is interrupted before the answer; NULL takes it back. @fn may be
 * called at once, and must answer the request. */
void req_on_interrupt(struct req *req, void (*fn)(struct req *req, void *data), void *data);

/* What the kernel may keep of a node, because it changes only by what the kernel itself asks for. */
enum reply_keep {
	REPLY_KEEP_NOTHING,
	REPLY_KEEP_NAME, /* ... and the attributes for as long as a path walk takes */
	REPLY_KEEP_ALL,
};

struct reply_entry {
	uint64_t ino;
	struct stat st; /* st_ino is set from `ino` unless it is not 0 */
	enum reply_keep keep;
};

struct reply_open {
	uint64_t fh;
	bool stream;	/* can't be sought in, nor read at an offset, nor sent by the kernel */
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
void reply_write(struct req *req, size_t size);
void reply_readlink(struct req *req, const char *target);
void reply_statfs(struct req *req, const struct statvfs *st);
void reply_lseek(struct req *req, uint64_t offset);
void reply_poll(struct req *req, unsigned revents);
/* F_GETLK: what is in the way, by enum proto_lock_type; @end INT64_MAX: to the end. */
void reply_lock(struct req *req, int type, uint64_t start, uint64_t end, uint32_t pid);
/* To a request that has no answer (FORGET). */
void reply_none(struct req *req);

/**
 * reply_dirent() - Add an entry to the answer of READDIR
 * @req: Request
 * @buf: Answer so far
 * @cap: Bytes at @buf
 * @ret_len: Bytes used, advanced if the entry fits
 * @name: Name
 * @ino: Inode number to show
 * @type: S_IFMT bits
 * @next: Offset at which the entry after this one is read
 *
 * Return: false if the entry does not fit.
 */
bool reply_dirent(struct req *req, char *buf, size_t cap, size_t *ret_len, const char *name,
		  uint64_t ino, uint32_t type, uint64_t next);

/* poll(2): wakes those who wait on the handle. */
void pollwait_notify(struct pollwait *pw);
void pollwait_free(struct pollwait *pw);

#endif
