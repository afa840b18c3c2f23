/* SPDX-License-Identifier: Apache-2.0 */
/* Requests without a kernel: keeps what was answered, and that it was answered exactly once. */
#ifndef XSBX_REPLY_FAKE_H
#define XSBX_REPLY_FAKE_H

#include "../../fs/reply.h"

enum answer_kind {
	ANSWER_NONE_YET,
	ANSWER_ERR,
	ANSWER_ATTR,
	ANSWER_ENTRY,
	ANSWER_CREATE,
	ANSWER_OPEN,
	ANSWER_BUF,
	ANSWER_WRITE,
	ANSWER_READLINK,
	ANSWER_STATFS,
	ANSWER_LSEEK,
	ANSWER_POLL,
	ANSWER_LOCK,
	ANSWER_NOTHING, /* reply_none() */
};

/*
 * - Belongs to this module until req_check_all(), also after its answer, so that a second answer or any
 *   other use after the first is noticed.
 */
struct req {
	enum answer_kind kind;
	int err;	      /* 0 or -errno */
	uint64_t ino;	      /* ENTRY, CREATE */
	struct stat st;	      /* ATTR, ENTRY, CREATE */
	enum reply_keep keep; /* likewise: may be cached */
	uint64_t fh;	      /* OPEN, CREATE */
	bool noflush, direct_io;
	char *data;  /* BUF, terminated on top; READLINK */
	size_t size; /* BUF, WRITE */
	struct statvfs statvfs;
	uint64_t number; /* LSEEK: offset; POLL: events; LOCK: type, and the process in `size` */

	struct req_ctx ctx;
	bool interrupted;
	void (*on_interrupt)(struct req *req, void *data);
	void *on_interrupt_data;
	struct req *next;
};

struct pollwait {
	bool notified, freed;
	struct pollwait *next;
};

/* A new request of process @pid (0: of none that this host knows). */
struct req *req_new(pid_t pid);

/* The caller of a waiting request got a signal. */
void req_interrupt(struct req *req);

/* Requests that wait for their answer. */
unsigned req_waiting(void);

struct pollwait *pollwait_new(void);

/* At the end of a test: everything has been answered and every poll handle given back. Frees all. */
void req_check_all(void);

/* What reply_dirent() packed into the answer of READDIR, one at a time: *pos starts at 0. Return: the name, or NULL at
 * the end. */
const char *req_dirent(const struct req *req, size_t *pos, uint64_t *ret_next);

#endif
