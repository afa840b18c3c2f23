/* SPDX-License-Identifier: Apache-2.0 */
/* What users have a day: processor time, bytes of the network. See quota.h. */
#include <errno.h>
#include <inttypes.h>

#include "account.h"
#include "fs.h"
#include "quota.h"
#include "vm/base/problem.h"
#include "vm/base/util.h"

#define DAY_S	     86400u
#define SECOND_US    1000000u
#define GRACE_PART   10u		/* what goes on may use so much of a day more, */
#define GRACE_MIN_US (2ull * SECOND_US) /* ... at least this */

static int64_t today(void)
{
	const struct timespec now = clock_now();

	return account_day(&now);
}

uint64_t quota_day_left(const struct fs *fs, struct tm *ret_next)
{
	const struct timespec now = clock_now();
	const time_t next = (time_t)(account_day(&now) + 1) * DAY_S;

	(void)fs;
	gmtime_r(&next, ret_next);
	return (uint64_t)(next - now.tv_sec);
}

static void spend(struct fs *fs, uid_t uid, const struct spent *more, int64_t day)
{
	account_spend(&fs->accounts, uid, more, day);
	if (fs->keeping)
		fs->keeping->spent(fs);
}

/* "in 5 h 12 min, at 00:00 UTC" */
struct anew {
	char text[64];
};

static struct anew begins_anew(const struct fs *fs)
{
	struct tm next;
	const unsigned minutes = (unsigned)(quota_day_left(fs, &next) + 59) / 60;
	struct anew a;

	snprintf(a.text, sizeof(a.text), "at 00:00 UTC, in %u h %02u min", minutes / 60,
		 minutes % 60);
	return a;
}

/* ---- processor time ---- */

static uint64_t limit_us(unsigned seconds)
{
	return (uint64_t)seconds * SECOND_US;
}

static int check_cpu(const struct fs *fs, uid_t uid, struct problem *why)
{
	const unsigned most = quotas_of(&fs->conf->quota, uid).cpu_s_day;
	const unsigned all = fs->conf->quota.all.cpu_s_day;
	const int64_t day = today();
	const uint64_t own = most ? account_of(&fs->accounts, uid, day).cpu_us : 0;

	if (most && own >= limit_us(most))
		problem_set(why, PROBLEM_OVER_QUOTA,
			    "Wait until then; the administrator sets the quota (cpu_s_day).",
			    "this user's sandboxes have used %" PRIu64
			    " seconds of processors today, of %u; it begins anew %s",
			    own / SECOND_US, most, begins_anew(fs).text);
	else if (all && account_of_all(&fs->accounts, day).cpu_us >= limit_us(all))
		problem_set(why, PROBLEM_OVER_QUOTA,
			    "Wait until then; the administrator sets the quota (cpu_s_day, of "
			    "all).",
			    "all users' sandboxes together have used the %u seconds of processors "
			    "that there are for a day; it begins anew %s",
			    all, begins_anew(fs).text);
	else
		return 0;
	return -EDQUOT;
}

int quota_begin(struct fs *fs, uid_t uid, struct problem *why)
{
	int e = check_cpu(fs, uid, why);

	if (e == 0)
		e = quota_disk(fs, uid, 1, why);
	if (e < 0)
		fs->stats.over_quota++;
	return e;
}

/* ---- what goes on ---- */

static bool is_far_over(uint64_t used, unsigned limit_s)
{
	const uint64_t limit = limit_us(limit_s);

	return limit_s && used >= limit + MAX(limit / GRACE_PART, GRACE_MIN_US);
}

static bool goes_too_far(const struct fs *fs, uid_t uid, int64_t day)
{
	return is_far_over(account_of(&fs->accounts, uid, day).cpu_us,
			   quotas_of(&fs->conf->quota, uid).cpu_s_day) ||
	       is_far_over(account_of_all(&fs->accounts, day).cpu_us,
			   fs->conf->quota.all.cpu_s_day);
}

void quota_cpu_add(struct fs *fs, uid_t uid, uint64_t us)
{
	const struct spent more = {.cpu_us = us};
	const int64_t day = today();

	fs->stats.cpu_us += us;
	spend(fs, uid, &more, day);
	if (!goes_too_far(fs, uid, day))
		return;
	fs->enforce = true;
	if (!fs->stopping)
		alarm_set(&fs->alarm, uv_now(fs->loop));
}

bool quota_is_far_over(const struct fs *fs, uid_t uid, struct problem *why)
{
	return goes_too_far(fs, uid, today()) && check_cpu(fs, uid, why) < 0;
}

/* ---- the network ---- */

static uint64_t left(uint64_t used, uint64_t limit)
{
	return !limit ? UINT64_MAX : used < limit ? limit - used : 0;
}

uint64_t quota_net_left(const struct fs *fs, uid_t uid)
{
	const int64_t day = today();
	const uint64_t own = left(account_of(&fs->accounts, uid, day).bytes,
				  quotas_of(&fs->conf->quota, uid).net_bytes_day);
	const uint64_t all =
		left(account_of_all(&fs->accounts, day).bytes, fs->conf->quota.all.net_bytes_day);

	return MIN(own, all);
}

void quota_net_add(struct fs *fs, uid_t uid, uint64_t bytes)
{
	const struct spent more = {.bytes = bytes};

	fs->stats.net_bytes += bytes;
	spend(fs, uid, &more, today());
	if (quota_net_left(fs, uid))
		return;
	fs->net_out = true;
	if (!fs->stopping)
		alarm_set(&fs->alarm, uv_now(fs->loop));
}

void quota_net_problem(const struct fs *fs, uid_t uid, struct problem *why)
{
	const uint64_t limit = quotas_of(&fs->conf->quota, uid).net_bytes_day;
	const uint64_t used = account_of(&fs->accounts, uid, today()).bytes;

	if (limit && used >= limit)
		problem_set(why, PROBLEM_OVER_QUOTA,
			    "Wait until then; the administrator sets the quota (net_bytes_day).",
			    "this user's sandboxes have sent and received %" PRIu64
			    " bytes today, of %" PRIu64 "; it begins anew %s",
			    used, limit, begins_anew(fs).text);
	else
		problem_set(why, PROBLEM_OVER_QUOTA,
			    "Wait until then; the administrator sets the quota (net_bytes_day, of "
			    "all).",
			    "all users' sandboxes together have sent and received the %" PRIu64
			    " bytes that there are for a day; it begins anew %s",
			    fs->conf->quota.all.net_bytes_day, begins_anew(fs).text);
}
