/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a session's connections, net/log: a JSON line for each that has ended, and for each request that was looked into. */
#ifndef XSBX_FS_SESSION_CONNLOG_H
#define XSBX_FS_SESSION_CONNLOG_H

#include <stdint.h>
#include <time.h>

#include "fs/request/trail.h"
#include "vm/base/buf.h"

#define CONNLOG_LINES 1024u	 /* newest that are kept */
#define CONNLOG_BYTES (1u << 20) /* of them */

/*
 * The newest lines are kept, and a line above them says how many are gone. That line has blanks at its end, so that the file never
 * gets shorter: programs that follow it, such as tail -f, would take it for another one. Whoever has it open has the lines where
 * they were when he opened it, for as long as they are kept.
 *
 * All zeroes is empty and valid.
 */
struct connlog {
	struct buf
		log; /* lines; the first begins at position `start`, counted from the first that there ever was */
	uint64_t start;
	uint64_t gone;	/* lines that are not kept */
	uint64_t shown; /* size of the file so far */
	unsigned n;	/* lines that are kept */
	size_t granted; /* bytes that the quota has had no objections to */
	struct timespec mtime;
	struct trail trail;
};

struct handle;
struct sandbox_logged;
struct session;

/* Callback `logged` of the sandbox. */
void connlog_add(struct session *s, const struct sandbox_logged *what);
void connlog_fini(struct connlog *log);

/* The size of the file. */
uint64_t connlog_size(const struct connlog *log);

/* Somebody opens it: from now on he has it as it is. Return: 0 or -ENOMEM. */
int connlog_open(struct handle *h);

/**
 * connlog_text() - What an open one reads as
 * @h: Handle
 * @offset: Where
 * @size: How much at most
 * @ret_n: How much there is; 0: no more
 *
 * Return: the text, or NULL: it is not kept any more.
 */
const char *connlog_text(const struct handle *h, uint64_t offset, size_t size, size_t *ret_n);

/* It was read from a record: counts its lines. Return: 0 or -EBADMSG. */
int connlog_join(struct connlog *log);
/* Likewise, of an open one. */
int connlog_check(const struct handle *h);

#endif
