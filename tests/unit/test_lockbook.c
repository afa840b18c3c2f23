/* SPDX-License-Identifier: Apache-2.0 */
/* Locks in a book: ranges against a plain table of bytes, and circles of those who wait. */
/* modules: agent/lockbook.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agent/lockbook.h"

#define BYTES  64u
#define OWNERS 3u

static struct lockbook book;
static const struct lock_file file = {1, 2};

static struct lock_ask ask(uint64_t owner, uint64_t start, uint64_t end, enum proto_lock_type type)
{
	return (struct lock_ask){
		.file = file, .owner = owner, .start = start, .end = end, .type = type};
}

static int take(const struct lock_ask *a)
{
	struct lock_holder *h = lockbook_find(&book, a->file, a->owner);
	struct lock_spare spare;

	if (lockbook_conflict(&book, a, NULL, NULL))
		return -EAGAIN;
	if (!h)
		h = lockbook_new(&book, a->file, a->owner, 0);
	assert_non_null(h);
	assert_int_equal(lockbook_reserve(&book, &spare), 0);
	lockbook_apply(&book, h, a, &spare);
	if (lockbook_empty(h))
		lockbook_free(&book, h);
	return 0;
}

static void clear(void)
{
	while (!LIST_EMPTY(&book.holders))
		lockbook_free(&book, LIST_FIRST(&book.holders));
	assert_int_equal(book.nranges, 0);
	assert_int_equal(book.nholders, 0);
}

/* What the book says of each byte, and that its ranges are as they should be. */
static void compare(uint8_t want[OWNERS][BYTES])
{
	for (unsigned o = 0; o < OWNERS; o++) {
		const struct lock_holder *h = lockbook_find(&book, file, o);
		uint8_t got[BYTES] = {0};

		for (const struct lock_range *r = h ? h->ranges : NULL; r; r = r->next) {
			assert_true(r->start <= r->end && r->end < BYTES);
			assert_true(!r->next || r->next->start > r->end);
			assert_false(r->next && r->next->start == r->end + 1 &&
				     r->next->type == r->type);
			memset(got + r->start, (int)r->type, r->end - r->start + 1);
		}
		assert_memory_equal(got, want[o], BYTES);
	}
}

static void test_ranges(void **state)
{
	uint8_t want[OWNERS][BYTES] = {0};

	(void)state;
	lockbook_init(&book);
	srandom(1);
	for (unsigned n = 0; n < 50000; n++) {
		unsigned owner = (unsigned)random() % OWNERS;
		uint64_t start = (unsigned)random() % BYTES;
		uint64_t end = start + (unsigned)random() % (BYTES - start);
		struct lock_ask a = ask(owner, start, end, (enum proto_lock_type)(random() % 3));
		bool free = true;

		for (unsigned o = 0; o < OWNERS; o++)
			for (uint64_t b = start; o != owner && b <= end; b++)
				free = free && !(a.type && want[o][b] &&
						 (a.type == PROTO_LOCK_EXCLUSIVE ||
						  want[o][b] == PROTO_LOCK_EXCLUSIVE));
		assert_int_equal(take(&a), free ? 0 : -EAGAIN);
		if (free)
			memset(want[owner] + start, (int)a.type, end - start + 1);
		compare(want);
	}
	clear();
}

static void test_whole_is_apart(void **state)
{
	struct lock_ask range = ask(1, 0, INT64_MAX, PROTO_LOCK_EXCLUSIVE);
	struct lock_ask whole = ask(2, 0, INT64_MAX, PROTO_LOCK_EXCLUSIVE);
	struct lock_ask third = ask(3, 0, INT64_MAX, PROTO_LOCK_SHARED);

	(void)state;
	lockbook_init(&book);
	whole.whole = third.whole = true;
	assert_int_equal(take(&range), 0);
	assert_int_equal(take(&whole), 0);
	assert_int_equal(take(&third), -EAGAIN);
	whole.type = PROTO_LOCK_SHARED;
	assert_int_equal(take(&whole), 0);
	assert_int_equal(take(&third), 0);
	clear();
}

static void test_circle(void **state)
{
	struct lock_waiter waits[OWNERS];

	(void)state;
	lockbook_init(&book);
	for (uint64_t o = 0; o < OWNERS; o++) {
		struct lock_ask own = ask(o, o, o, PROTO_LOCK_EXCLUSIVE);

		assert_int_equal(take(&own), 0);
	}
	/* Each waits for the next, and the last for the first. */
	for (uint64_t o = 0; o < OWNERS; o++) {
		waits[o].ask = ask(o, (o + 1) % OWNERS, (o + 1) % OWNERS, PROTO_LOCK_SHARED);
		assert_int_equal(lockbook_deadlocks(&book, &waits[o].ask), o == OWNERS - 1);
		TAILQ_INSERT_TAIL(&book.waiters, &waits[o], link);
	}
	/* A circle of others is not the asker's. */
	waits[0].ask = ask(9, 0, 0, PROTO_LOCK_SHARED);
	assert_false(lockbook_deadlocks(&book, &waits[0].ask));
	clear();
}

static void test_bounds(void **state)
{
	struct lock_file other = {0, 0};
	unsigned n = 0;

	(void)state;
	lockbook_init(&book);
	for (; lockbook_new(&book, other, n, 0); n++)
		other.ino++;
	assert_int_equal(n, LOCKBOOK_HOLDERS);
	clear();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_whole_is_apart),
		cmocka_unit_test(test_circle),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
