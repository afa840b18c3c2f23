/* SPDX-License-Identifier: Apache-2.0 */
/* What users have used today: sums, days, the clock, a table that does not grow for ever, and records. */
/* modules: fs/session/account.c vm/base/record.c vm/base/buf.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "fs/session/account.h"
#include "vm/base/buf.h"

#define DAY 20000

static void spend(struct accounts *a, uid_t uid, uint64_t us, uint64_t bytes, int64_t day)
{
	account_spend(a, uid, &(struct spent){us, bytes}, day);
}

static uint64_t us_of(const struct accounts *a, uid_t uid, int64_t day)
{
	return account_of(a, uid, day).cpu_us;
}

static void days(void **state)
{
	const struct timespec before = {.tv_sec = 86400 - 1}, behind = {.tv_sec = 86400};
	struct accounts a = {0};

	(void)state;
	assert_int_equal(account_day(&before), 0);
	assert_int_equal(account_day(&behind), 1);
	spend(&a, 7, 100, 5, DAY);
	spend(&a, 8, 1, 0, DAY);
	spend(&a, 7, 50, 1, DAY);
	assert_int_equal(us_of(&a, 7, DAY), 150);
	assert_int_equal(account_of(&a, 7, DAY).bytes, 6);
	assert_int_equal(us_of(&a, 8, DAY), 1);
	assert_int_equal(us_of(&a, 9, DAY), 0);
	assert_int_equal(account_of_all(&a, DAY).cpu_us, 151);
	/* Another one begins: for all at once, whoever has used something of it. */
	assert_int_equal(us_of(&a, 7, DAY + 1), 0);
	spend(&a, 7, 3, 0, DAY + 1);
	assert_int_equal(us_of(&a, 7, DAY + 1), 3);
	assert_int_equal(us_of(&a, 8, DAY + 1), 0);
	assert_int_equal(account_of_all(&a, DAY + 1).cpu_us, 3);
	assert_int_equal(a.n, 2);
	account_fini(&a);
}

/* Who puts the clock back does not give the day again, and nobody is without one for long. */
static void clock_put_back(void **state)
{
	struct accounts a = {0};

	(void)state;
	spend(&a, 7, 100, 0, DAY + 900);
	assert_int_equal(us_of(&a, 7, DAY), 100);
	spend(&a, 7, 1, 0, DAY);
	assert_int_equal(us_of(&a, 7, DAY), 101);
	assert_int_equal(us_of(&a, 7, DAY + 1), 0);
	account_fini(&a);
}

/* One person may have the ids of many. */
static void many(void **state)
{
	struct accounts a = {0};

	(void)state;
	for (unsigned i = 0; i < ACCOUNTS_MAX + 100; i++)
		spend(&a, 1000 + i, 10, 0, DAY);
	assert_int_equal(a.n, ACCOUNTS_MAX);
	assert_true(a.room <= ACCOUNTS_MAX);
	assert_int_equal(us_of(&a, 1000, DAY), 10);
	/* Those behind them have one together. */
	assert_int_equal(us_of(&a, 1000 + ACCOUNTS_MAX, DAY), 1000);
	assert_int_equal(us_of(&a, 77777, DAY), 1000);
	assert_int_equal(account_of_all(&a, DAY).cpu_us, 10ull * (ACCOUNTS_MAX + 100));
	/* Until the next day. */
	assert_int_equal(us_of(&a, 77777, DAY + 1), 0);
	spend(&a, 77777, 5, 0, DAY + 1);
	assert_int_equal(us_of(&a, 77777, DAY + 1), 5);
	assert_int_equal(a.n, ACCOUNTS_MAX);
	account_fini(&a);
}

static void no_end(void **state)
{
	struct accounts a = {0};

	(void)state;
	spend(&a, 7, UINT64_MAX, UINT64_MAX, DAY);
	spend(&a, 7, UINT64_MAX, UINT64_MAX, DAY);
	assert_true(us_of(&a, 7, DAY) >= UINT64_MAX / 4);
	assert_true(account_of(&a, 7, DAY).bytes >= UINT64_MAX / 4);
	account_fini(&a);
}

/* ---- records ---- */

static void copy(const struct accounts *from, struct accounts *to)
{
	struct buf text = {0};

	for (unsigned i = ACCOUNT_PLACES; i-- > 0;) {
		if (!account_at(from, i))
			continue;
		text.len = 0;
		account_put(account_at(from, i), &text);
		assert_int_equal(account_get(to, i, record_reader(text.data, text.len)), 0);
	}
	buf_clear(&text);
}

static void records(void **state)
{
	struct accounts a = {0}, b = {0};

	(void)state;
	for (unsigned i = 0; i < ACCOUNTS_MAX + 3; i++)
		spend(&a, i, i, 2, DAY);
	copy(&a, &b);
	assert_int_equal(b.n, a.n);
	for (unsigned i = 0; i < ACCOUNTS_MAX + 3; i++)
		assert_int_equal(us_of(&b, i, DAY), us_of(&a, i, DAY));
	assert_int_equal(account_of_all(&b, DAY).bytes, 2ull * (ACCOUNTS_MAX + 3));
	account_fini(&a);
	account_fini(&b);
}

static void marks(void **state)
{
	struct accounts a = {0};

	(void)state;
	spend(&a, 7, 1, 0, DAY);
	spend(&a, 8, 1, 0, DAY);
	assert_true(a.touched && account_at(&a, 0)->touched && account_at(&a, 1)->touched);
	account_noted(&a);
	assert_false(a.touched || account_at(&a, 0)->touched ||
		     account_at(&a, ACCOUNTS_MAX)->touched);
	spend(&a, 8, 1, 0, DAY);
	assert_false(account_at(&a, 0)->touched);
	assert_true(account_at(&a, 1)->touched && account_at(&a, ACCOUNTS_MAX)->touched);
	assert_null(account_at(&a, 2));
	account_fini(&a);
}

static int get(struct accounts *a, uint64_t place, const struct buf *text)
{
	return account_get(a, place, record_reader(text->data, text->len));
}

static void damaged(void **state)
{
	struct accounts a = {0};
	struct buf text = {0};

	(void)state;
	account_put(&(struct account){.uid = 7, .day = DAY, .spent = {5, 6}}, &text);
	assert_int_equal(get(&a, ACCOUNT_PLACES, &text), -EBADMSG);
	assert_int_equal(get(&a, UINT64_MAX, &text), -EBADMSG);
	assert_int_equal(get(&a, 3, &text), 0);
	assert_int_equal(get(&a, 4, &text), -EBADMSG); /* there twice */
	for (size_t len = 1; len < text.len; len++) {
		const struct buf half = {.data = text.data, .len = len};

		(void)get(&a, 5, &half);
	}
	text.len = 0;
	account_put(&(struct account){.uid = 9, .day = -1}, &text);
	assert_int_equal(get(&a, 6, &text), -EBADMSG);
	text.len = 0;
	account_put(&(struct account){.uid = 9, .day = DAY, .spent = {UINT64_MAX, 0}}, &text);
	assert_int_equal(get(&a, 6, &text), -EBADMSG);
	/* What is there counts. */
	assert_int_equal(us_of(&a, 7, DAY), 5);
	spend(&a, 7, 1, 0, DAY);
	assert_int_equal(us_of(&a, 7, DAY), 6);
	account_fini(&a);
	buf_clear(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(days),	   cmocka_unit_test(clock_put_back),
		cmocka_unit_test(many),	   cmocka_unit_test(no_end),
		cmocka_unit_test(records), cmocka_unit_test(marks),
		cmocka_unit_test(damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
