/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel is going to be told in this turn of the loop, behind the commit. */
#ifndef XSBX_FS_FUSE_OUTBOX_H
#define XSBX_FS_FUSE_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

/*
 * Theory of operation
 * -------------------
 * An answer that the kernel has had must be true in the next daemon as well, so nothing is said
 * before the records are committed from which it follows: numbers of handles, of nodes, what a
 * cursor has passed over. Until then answers lie in shared memory. The records say of which turn
 * they are, and how many bytes; the memory says of which turn it is. If both are the same when a
 * daemon has died, it died before all was said, and its heir says it again: what the kernel had is
 * refused with ENOENT. The number in the memory is counted up when all was said, before anything
 * else is written there.
 *
 * What does not fit lies in the heap, and whoever commits makes records of it.
 */

struct outbox_head;

/* One that did not fit. */
struct outbox_more {
	TAILQ_ENTRY(outbox_more) link;
	uint64_t number; /* never the same again */
	size_t len;
	bool recorded;
	char data[]; /* begins with a struct fuse_out_header, as all of them */
};

struct outbox {
	struct outbox_head *head; /* in shared memory; or NULL */
	size_t size;
	size_t len;    /* bytes of it that are used */
	uint64_t turn; /* of which they are */
	TAILQ_HEAD(outbox_more_list, outbox_more) more;
	size_t queued; /* bytes of all */
	uint64_t number;
};

/* Empty, in @mem of @size bytes. */
void outbox_open(struct outbox *o, void *mem, size_t size);

/* In an heir: what is there, if it is of turn @turn, and then @len bytes of it. Return: 0,
 * -EBADMSG. */
int outbox_load(struct outbox *o, void *mem, size_t size, uint64_t turn, size_t len);
/* ... and one that did not fit, in their order. Return: 0, -EBADMSG, -ENOMEM. */
int outbox_load_more(struct outbox *o, uint64_t number, const void *data, size_t len);

/* Keeps an answer, or a notification. Return: 0, -ENOMEM. */
int outbox_add(struct outbox *o, const struct iovec *iov, int count);

/* Writes all to the connection @fd; then it is empty. */
void outbox_say(struct outbox *o, int fd);

/* Forgets what is in the heap. */
void outbox_fini(struct outbox *o);

#endif
