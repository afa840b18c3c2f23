/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's requests of one turn of the loop, as they came, where the daemon's heir finds them. */
#ifndef XSBX_FS_FUSE_INBOX_H
#define XSBX_FS_FUSE_INBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Theory of operation
 * -------------------
 * What read(2) has taken from the kernel is nowhere else. A daemon that is killed has handled it for nobody, unless what came of
 * it was committed. So requests are received into shared memory, and lie there one behind the other until the commit.
 *
 * They have numbers, without a gap since the mount was made. The records say up to which one they were handled; those behind
 * it, the heir handles. In shared memory there are the number of the first, and how many there are, the one that is about to be
 * received included: the length in its header is 0 before, and true afterwards, because the kernel copies the header first,
 * and all of it, whoever is killed meanwhile.
 *
 * - The store order is what makes it right: a request counts only after its length was made 0, and none does before the next
 *   turn's first number is there.
 * - In front of each request INBOX_MARGIN bytes are free: it becomes a field of a record where it lies.
 */
#define INBOX_MARGIN 8u

struct inbox_head;

struct inbox {
	struct inbox_head *head; /* all of it, in shared memory; or NULL */
	size_t size, max;	 /* of all; of one request */
	size_t at;		 /* where the next will be received */
	size_t todo; /* ... and the first that the dead daemon has left; the same as `at` if there is none */
	uint64_t last; /* number of the last that was handled, or is being handled */
};

/* Memory for requests of at most @max bytes. */
size_t inbox_size(size_t max);

/* Empty, in @mem of inbox_size(). */
void inbox_open(struct inbox *in, void *mem, size_t max);

/* In an heir: what is there, of which those up to number @handled are to be passed over. Return: 0, -EBADMSG. */
int inbox_load(struct inbox *in, void *mem, size_t max, uint64_t handled);

/* Is there room for another one, before the next commit? */
bool inbox_has_room(const struct inbox *in);

/* Return: where it may be received. There must be room. */
char *inbox_begin(struct inbox *in);

/* It is there, with @len bytes. */
void inbox_received(struct inbox *in, size_t len);

/* Return: the next that the dead daemon has left, of *@ret_len bytes; or NULL. */
char *inbox_next(struct inbox *in, size_t *ret_len);

/* All that were handled are committed. */
void inbox_reset(struct inbox *in);

#endif
