/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the audit log that a user can have any number of by doing nothing: they have a rate, and are counted beyond it. */
#ifndef XSBX_FS_SESSION_AUDIT_RATE_H
#define XSBX_FS_SESSION_AUDIT_RATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "vm/base/rate.h"

#define AUDIT_RATE_BURST 100u /* lines of a user at once */
#define AUDIT_RATE_MS	 100u /* and one each, behind them */
#define AUDIT_RATE_USERS \
	32u /* that are known apart: one more has what whoever was heard of the longest ago has left */

/* All zeroes: nobody had any. A daemon that goes on where this one ends knows of it how many have none, and of nobody what he has left. */
struct audit_rate {
	struct audit_rate_user {
		uid_t uid;
		struct rate rate;    /* nothing was done: nobody's */
		uint64_t unreported; /* since his last line */
	} of[AUDIT_RATE_USERS];
	uint64_t forgotten; /* likewise, of users and sessions that are not known any more */
};

/* May a user have another one? @ret_unreported: how many of his before it have none. Return: false: it is counted. */
bool audit_rate_take(struct audit_rate *r, uid_t uid, uint64_t now_ms, uint64_t *ret_unreported);

/* How many of all users have none and are not told of; and they are now. */
uint64_t audit_rate_unreported(const struct audit_rate *r);
uint64_t audit_rate_rest(struct audit_rate *r);

#endif
