/* SPDX-License-Identifier: Apache-2.0 */
/* What each user has used today. See account.h. */
#include "account.h"

#include <errno.h>
#include <stdlib.h>

#include "vm/base/util.h"

#define DAY_S	      86400
#define ROOM_AT_FIRST 16u
#define PLACE_ALL     ACCOUNTS_MAX
#define PLACE_OTHERS  (ACCOUNTS_MAX + 1)
#define DAYS_MAX      (INT64_MAX / DAY_S)
#define SPENT_MAX     (UINT64_MAX / 4)

int64_t account_day(const struct timespec *now)
{
	return now->tv_sec / DAY_S;
}

/* ---- one of them ---- */

static struct spent today(const struct account *acc, int64_t day)
{
	const struct spent none = {0};

	return acc->day < day ? none : acc->spent;
}

static void add(struct accounts *a, struct account *acc, const struct spent *more, int64_t day)
{
	acc->spent = today(acc, day);
	acc->day = day;
	acc->spent.cpu_us += MIN(more->cpu_us, SPENT_MAX - MIN(acc->spent.cpu_us, SPENT_MAX));
	acc->spent.bytes += MIN(more->bytes, SPENT_MAX - MIN(acc->spent.bytes, SPENT_MAX));
	acc->touched = a->touched = true;
}

/* ---- all of them ---- */

static struct account *find(const struct accounts *a, uid_t uid)
{
	for (unsigned i = 0; i < a->n; i++)
		if (a->of[i].uid == uid)
			return &a->of[i];
	return NULL;
}

/* One that counts no more: of another day, or of nothing. */
static struct account *find_free(const struct accounts *a, int64_t day)
{
	for (unsigned i = 0; i < a->n; i++) {
		const struct spent s = today(&a->of[i], day);

		if (!s.cpu_us && !s.bytes)
			return &a->of[i];
	}
	return NULL;
}

static bool make_room(struct accounts *a)
{
	const unsigned room = a->room ? MIN(2 * a->room, ACCOUNTS_MAX) : ROOM_AT_FIRST;
	struct account *of;

	if (a->n < a->room)
		return true;
	of = a->n < ACCOUNTS_MAX ? reallocarray(a->of, room, sizeof(*of)) : NULL;
	if (!of)
		return false;
	a->of = of;
	a->room = room;
	return true;
}

static struct account *take(struct accounts *a, uid_t uid, int64_t day)
{
	struct account *acc = find(a, uid);

	if (acc)
		return acc;
	acc = find_free(a, day);
	if (!acc && make_room(a))
		acc = &a->of[a->n++];
	if (!acc)
		return &a->others;
	*acc = (struct account){.uid = uid, .day = day};
	return acc;
}

struct spent account_of(const struct accounts *a, uid_t uid, int64_t day)
{
	const struct account *acc = find(a, uid);

	if (!acc && a->n == ACCOUNTS_MAX && !find_free(a, day))
		acc = &a->others;
	return acc ? today(acc, day) : (struct spent){0};
}

struct spent account_of_all(const struct accounts *a, int64_t day)
{
	return today(&a->all, day);
}

void account_spend(struct accounts *a, uid_t uid, const struct spent *more, int64_t day)
{
	add(a, take(a, uid, day), more, day);
	add(a, &a->all, more, day);
	a->changes++;
}

void account_fini(struct accounts *a)
{
	free(a->of);
	*a = (struct accounts){0};
}

/* ---- as records ---- */

/* Never reuse one. */
enum account_tag {
	TAG_UID = 1,
	TAG_DAY,
	TAG_CPU_US,
	TAG_BYTES,
};

const struct account *account_at(const struct accounts *a, unsigned place)
{
	if (place == PLACE_ALL)
		return &a->all;
	if (place == PLACE_OTHERS)
		return &a->others;
	return place < a->n ? &a->of[place] : NULL;
}

void account_noted(struct accounts *a)
{
	for (unsigned i = 0; i < a->n; i++)
		a->of[i].touched = false;
	a->all.touched = a->others.touched = a->touched = false;
}

void account_put(const struct account *acc, struct buf *out)
{
	record_u64(out, TAG_UID, acc->uid);
	record_i64(out, TAG_DAY, acc->day);
	record_u64(out, TAG_CPU_US, acc->spent.cpu_us);
	record_u64(out, TAG_BYTES, acc->spent.bytes);
}

static int read_one(struct account *acc, struct record_reader fields)
{
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		switch ((enum account_tag)f.tag) {
		case TAG_UID: r = record_get_u32(&f, UINT32_MAX, &acc->uid); break;
		case TAG_DAY: r = record_get_i64(&f, &acc->day); break;
		case TAG_CPU_US: r = record_get(&f, 0, SPENT_MAX, &acc->spent.cpu_us); break;
		case TAG_BYTES: r = record_get(&f, 0, SPENT_MAX, &acc->spent.bytes); break;
		default: break;
		}
		if (r < 0)
			return r;
	}
	return r < 0 || acc->day < 0 || acc->day > DAYS_MAX ? -EBADMSG : 0;
}

/* In any order: those before it may follow. */
static struct account *place_for(struct accounts *a, unsigned place)
{
	while (a->n <= place) {
		if (!make_room(a))
			return NULL;
		a->of[a->n++] = (struct account){.uid = (uid_t)-1};
	}
	return &a->of[place];
}

int account_get(struct accounts *a, uint64_t place, struct record_reader fields)
{
	struct account acc = {0}, *to;
	int r = read_one(&acc, fields);

	if (r < 0 || place >= ACCOUNT_PLACES)
		return -EBADMSG;
	if (place == PLACE_ALL)
		to = &a->all;
	else if (place == PLACE_OTHERS)
		to = &a->others;
	else if (find(a, acc.uid))
		return -EBADMSG;
	else
		to = place_for(a, (unsigned)place);
	if (!to)
		return -ENOMEM;
	*to = acc;
	a->changes++;
	return 0;
}
