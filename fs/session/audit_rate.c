/* SPDX-License-Identifier: Apache-2.0 */
/* How many lines of the audit log a user has a second. See audit_rate.h. */
#include "audit_rate.h"

#include <stddef.h>

/* His, or that of whoever was heard of the longest ago, with what that had left: who has more ids than there is room for
 * has no more lines. */
static struct audit_rate_user *user_of(struct audit_rate *r, uid_t uid)
{
	struct audit_rate_user *oldest = &r->of[0];

	for (size_t i = 0; i < AUDIT_RATE_USERS; i++) {
		if (r->of[i].rate.filled_ms && r->of[i].uid == uid)
			return &r->of[i];
		if (r->of[i].rate.filled_ms < oldest->rate.filled_ms)
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

	if (!rate_take(&u->rate, AUDIT_RATE_BURST, AUDIT_RATE_MS, now_ms)) {
		u->unreported++;
		return false;
	}
	*ret_unreported = u->unreported;
	u->unreported = 0;
	return true;
}

uint64_t audit_rate_unreported(const struct audit_rate *r)
{
	uint64_t n = r->forgotten;

	for (size_t i = 0; i < AUDIT_RATE_USERS; i++)
		n += r->of[i].unreported;
	return n;
}

uint64_t audit_rate_rest(struct audit_rate *r)
{
	const uint64_t n = audit_rate_unreported(r);

	r->forgotten = 0;
	for (size_t i = 0; i < AUDIT_RATE_USERS; i++)
		r->of[i].unreported = 0;
	return n;
}
