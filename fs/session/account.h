/* SPDX-License-Identifier: Apache-2.0 */
/* What each user has used today: processor time, and bytes of the network. */
#ifndef XSBX_FS_SESSION_ACCOUNT_H
#define XSBX_FS_SESSION_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "vm/base/record.h"

#define ACCOUNTS_MAX 4096u /* users who have used something on one day */

/*
 * Theory of operation
 * -------------------
 * A day begins at 00:00 UTC, for all, and what was used is forgotten then. If the clock is put back, what was used stays so
 * for the day that it shows now: nobody is given the same day twice.
 *
 * A user has an entry from the first thing that he uses on. There are only so many, for one person may have the ids of many
 * (subuid(5)): those behind them share one, as if they were one user. An entry of a day that is over is free.
 *
 * All zeroes is an empty table.
 */
struct spent {
	uint64_t cpu_us, bytes;
};

struct account {
	uid_t uid;
	int64_t day; /* since 1970 */
	struct spent spent;
	bool touched; /* since account_noted(), of who writes records */
};

struct accounts {
	struct account all, others; /* of all together; of those for whom there was no entry */
	struct account *of;
	unsigned n, room;
	bool touched;	  /* some of them */
	uint64_t changes; /* how often there were any, for who keeps them on a disk */
};

int64_t account_day(const struct timespec *now);

/* What @uid has used of this day. */
struct spent account_of(const struct accounts *a, uid_t uid, int64_t day);
/* ... and all together. */
struct spent account_of_all(const struct accounts *a, int64_t day);

/* He has used so much more. */
void account_spend(struct accounts *a, uid_t uid, const struct spent *more, int64_t day);

void account_fini(struct accounts *a);

/* ---- as records, for the daemon that follows and for the next mount ---- */

/* Their places: the n entries, and two more. */
#define ACCOUNT_PLACES (ACCOUNTS_MAX + 2)

/* The one at @place, or NULL: there is none. */
const struct account *account_at(const struct accounts *a, unsigned place);
/* All that is there is written. */
void account_noted(struct accounts *a);

/* Appends its fields. */
void account_put(const struct account *acc, struct buf *out);
/* Return: 0, -EBADMSG, -ENOMEM. */
int account_get(struct accounts *a, uint64_t place, struct record_reader fields);

#endif
