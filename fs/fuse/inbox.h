/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's requests of one turn of the loop, as they came, where an heir finds them. */
#ifndef XSBX_FS_FUSE_INBOX_H
#define XSBX_FS_FUSE_INBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/base/sheets.h"

/*
 * Theory of operation
 * -------------------
 * What read(2) has taken from the kernel is nowhere else. A daemon that is killed has handled it
 * for nobody, unless what came of it was committed. So requests are received into shared memory,
 * and lie there one behind the other until the commit.
 *
 * They have numbers, without a gap since the mount was made. The records say up to which one they
 * were handled; those behind it, the heir handles. In shared memory there are the number of the
 * first, its place, and how many there are, the one that is about to be received included: the
 * length in its header is 0 before, and true afterwards, because the kernel copies the header
 * first, and all of it, whoever is killed meanwhile.
 *
 * That memory is sheets (vm/base/sheets.h), so that a long request can stay where it is when the
 * turn is over, until it was answered and all of it was sent: somebody holds its sheet. The next
 * turn begins behind it, or on another sheet if there is no room; one more is always free for that,
 * or the request is not held.
 *
 * - The store order is what makes it right: a request counts only after its length was made 0, and
 *   none does before the next turn's first number and place are there.
 * - Where the next turn begins is decided at the commit, by what is held then: what is let go later
 *   may be named by what was committed.
 * - In front of each request INBOX_MARGIN bytes are free: it becomes a field of a record where it
 *   lies.
 */
#define INBOX_MARGIN 8u
#define INBOX_HEAD   64u /* bytes beside the sheets */

struct inbox_head;

struct inbox {
	struct inbox_head *head; /* in shared memory; or NULL */
	struct sheets *sheets;
	size_t max;	/* of one request */
	unsigned sheet; /* on which this turn is */
	/* Places on the sheets: */
	size_t at; /* where the next will be received */
	size_t todo; /* ... and the first that the dead daemon has left; the same as `at` if there is none */
	size_t settled; /* ... and where the next turn begins */
	uint64_t last;	/* number of the last that was handled, or is being handled */
};

/* Empty, in @mem of INBOX_HEAD bytes and these sheets, for requests of at most @max bytes. */
void inbox_open(struct inbox *in, void *mem, struct sheets *sheets, size_t max);

/* In an heir, when all that is held is held again: what is there, of which those up to number
 * @handled are to be passed over. Return: 0, -EBADMSG. */
int inbox_load(struct inbox *in, void *mem, struct sheets *sheets, size_t max, uint64_t handled);

/* Is there room for another one, before the next commit? */
bool inbox_has_room(const struct inbox *in);

/* Return: where it may be received. There must be room. */
char *inbox_begin(struct inbox *in);

/* It is there, with @len bytes. */
void inbox_received(struct inbox *in, size_t len);

/* Its sheet is held, and it may stay there behind the turn. Return: false if there would be no
 * place for the next ones. */
bool inbox_hold(struct inbox *in, const char *request);

/* Return: the next that the dead daemon has left, of *@ret_len bytes; or NULL. */
char *inbox_next(struct inbox *in, size_t *ret_len);

/* What is held now will be committed. */
void inbox_settle(struct inbox *in);
/* All that were handled are committed. */
void inbox_reset(struct inbox *in);

#endif
