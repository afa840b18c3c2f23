/* SPDX-License-Identifier: Apache-2.0 */
/* How many lines of the audit log a user has a second. See audit_rate.h. */
#include "audit_rate.h"

#include <stddef.h>

#include "vm/base/util.h"

/* His, or that of whoever was heard of the longest ago, with what that had left: who has more ids than there is room for
 * has no more lines. */
static struct audit_rate_user *user_of(struct audit_rate *r, uid_t uid)
{
	struct audit_rate_user *oldest = &r->of[0];

	for (size_t i = 0; i < AUDIT_RATE_USERS; i++) {
		if (r->of[i].filled_ms && r->of[i].uid == uid)
			return &r->of[i];
		if (r->of[i].filled_ms < oldest->filled_ms)
			oldest = &r->of[i];
	}
	r->forgotten += oldest->unreported;
	oldest->uid = uid;
	oldest->unreported = 0;
	return oldest;
}

bool audit_rate_take(struct audit_rate *r, uid_t uid, uint64_t now_ms, uint64_t *ret_unreported)
{
	struct audit_rate_user *u = user_of(r, uid);
	const uint64_t due = (now_ms - u->filled_ms) / AUDIT_RATE_MS;

	if (!u->filled_ms || due >= AUDIT_RATE_BURST) {
		u->left = AUDIT_RATE_BURST;
		u->filled_ms = MAX(now_ms, (uint64_t)1);
	} else {
		u->left = MIN(u->left + (unsigned)due, AUDIT_RATE_BURST);
		u->filled_ms += due * AUDIT_RATE_MS;
	}
	if (!u->left) {
		u->unreported++;
		return false;
	}
	u->left--;
	*ret_unreported = u->unreported;
	u->unreported = 0;
	return true;
}

uint64_t audit_rate_rest(struct audit_rate *r)
{
	uint64_t n = r->forgotten;

	r->forgotten = 0;
	for (size_t i = 0; i < AUDIT_RATE_USERS; i++) {
		n += r->of[i].unreported;
		r->of[i].unreported = 0;
	}
	return n;
}
