/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of this process that are held by another one as well, for who comes after this
 * one. */
#ifndef XSBX_VM_BASE_LENT_H
#define XSBX_VM_BASE_LENT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Theory of operation
 * -------------------
 * Records that outlive their process speak of descriptors by numbers. A process without a heap of
 * its own, the holder (vm/spawn/holder.h), has a copy of each, in a table by these numbers; it is
 * told over a socket. What a record names has to be in that socket before the record is committed,
 * and what it named may be closed there only behind the commit of one that does not name it any
 * more. So lent_put() speaks at once, and lent_close() does when lent_committed() is called.
 *
 * The holder may end, or stop hearing. Nothing is lost with it as long as this process is there,
 * which has all that it has lent: it goes on counting, as if it had a holder, and is `away`. If
 * there is another one, that is given all of it behind a commit, lent_again(), by the same numbers.
 * So what is committed meanwhile is right, and is of use from then on.
 *
 * A process has one table of descriptors, and so there is one of these. Until lent_begin() nothing
 * is lent, and all that lent_close() does is close(2). Whatever may have been lent has to be closed
 * by it: the number in the table is known by the descriptor, which is somebody else's next. The
 * table is the loop's; in other threads lent_close() is close(2).
 */

/* What is said to the holder, with a descriptor behind LENT_HOLD. */
enum lent_op {
	LENT_HOLD = 1,
	LENT_DROP,
	LENT_GIVE, /* all that is held, please */
};

struct lent_word {
	uint32_t op, number;
};

/* The answer to LENT_GIVE: packets with descriptors behind them, by these numbers; one with none is
 * the last. */
#define LENT_PACK    16u
#define LENT_MAX     65536u /* numbers; FDBAG_MAX */
#define LENT_GIVE_MS 5000   /* each is waited for */

struct lent_pack {
	uint32_t n, number[LENT_PACK];
};

/* From now on descriptors are lent, over this socket, which is the callee's; -1: there is no holder,
 * and what is lent has but its number. Return: 0 or -errno. */
int lent_begin(int sock);

/* Nothing is lent any more. */
void lent_end(void);

/* Return: the number of this descriptor, from 1, and the same for as long as it is open; 0: it is
 * -1, or could not be lent, see lent_failed(), or nothing is lent at all. */
unsigned lent_put(int fd);

/* Could something not be lent? Then what names it is not to be committed. Return: 0, or for ever
 * the first -errno. */
int lent_failed(void);

/* Is there nobody who holds what is lent? True as well where nothing is. */
bool lent_is_away(void);

/* ... not because it has ended, or does not hear, but because more descriptors are on their way
 * than one user may have there, and were for long? */
bool lent_is_crowded(void);

/* There is no holder any more: it is away. */
void lent_lose(void);

/* There is another one, which has nothing yet: it is given all that is lent. To be called behind
 * lent_committed(), since what is committed is to name nothing else. @sock: Its; the callee's. */
void lent_again(int sock);

/* There will be none any more: lent_failed(). */
void lent_give_up(int err);

/* Closes it, whether it was lent or not; *@fd is -1 then. Nothing is done for -1. */
void lent_close(int *fd);

/* Somebody else, a thread, is going to close it. */
void lent_forget(int fd);

/* What is committed names nothing that was closed before. */
void lent_committed(void);

/* For tests: looks each time whether a descriptor is still the one that was lent with its number,
 * and aborts. */
void lent_verify(bool yes);

/**
 * lent_inherit() - Instead of lent_begin(), in a process that comes after another one
 * @sock: To the holder; the callee's, also on failure
 * @take: Gets each that is held, which is its own then. Return: 0 or -errno, which ends it
 * @data: Its first argument
 *
 * It waits for the holder, but not for one that says nothing.
 *
 * Return: 0, -EBADMSG, -ETIMEDOUT or -errno.
 */
int lent_inherit(int sock, int (*take)(void *data, unsigned number, int fd), void *data);

/* All that is lent, to a process that takes over from this one: for lent_adopt(). @sock stays the
 * caller's. Return: 0 or -errno. */
int lent_give(int sock);

/* lent_inherit(), but from such a process, whose holder stays its own: this one has none before
 * lent_again(). @sock stays the caller's. */
int lent_adopt(int sock, int (*take)(void *data, unsigned number, int fd), void *data);

#endif
