/* SPDX-License-Identifier: Apache-2.0 */
/* What this process is about to do, in memory that outlives it: so that what kills it twice is not
 * done a third time. */
#ifndef XSBX_VM_BASE_BLACKBOX_H
#define XSBX_VM_BASE_BLACKBOX_H

#include <stdbool.h>
#include <stdint.h>

enum blackbox_kind {
	BLACKBOX_NOTHING,
	BLACKBOX_REQUEST, /* of the kernel's, by its number */
	BLACKBOX_SANDBOX, /* bytes of its agent's, by the process that it is */
	BLACKBOX_NKINDS,
};

/*
 * What is done may kill later, when the turn is written down that it was part of (turn.h): then
 * nothing is known of it. It is there still, and the next process does it again. So that one is
 * careful at the beginning: one thing is done, then written down, and until then it stands in the
 * box. If it dies of that, the next one does, and the third knows.
 */

/* In shared memory, and believed by nobody: what is wrong there costs one request its answer, or
 * one sandbox its life. */
struct blackbox {
	uint64_t kind, id; /* what is being done */
	uint64_t before[2];
	uint64_t poison
		[2]; /* what was being done at two deaths, one after the other; stays for ever */
};

/* From now on it is noted here; NULL: nowhere. Until this is called, likewise. */
void blackbox_use(struct blackbox *b);

/**
 * blackbox_revive() - In a process that comes after one that has died
 * @b: What that has left
 * @by_itself: It was no kill(2) of somebody else's, who may have found it at anything
 *
 * Return: whether something is poison that was none before.
 */
bool blackbox_revive(struct blackbox *b, bool by_itself);

/* It is about to do this; and has done it, which stands there until blackbox_written() as long as
 * it is careful. One within another is not noted. */
void blackbox_at(enum blackbox_kind kind, uint64_t id);
void blackbox_done(void);

/* Is one thing to be written down before the next is done? In a process that comes after one that
 * has died by itself, for so many rounds of its loop that what was left is done. */
bool blackbox_is_careful(void);

/* What was done is written down. */
void blackbox_written(void);

/* The loop comes round once more. */
void blackbox_round(void);

/* Has this killed two processes? */
bool blackbox_is_poison(enum blackbox_kind kind, uint64_t id);

#endif
