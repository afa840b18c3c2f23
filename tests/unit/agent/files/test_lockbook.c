/* SPDX-License-Identifier: Apache-2.0 */
/* Locks in a book: ranges against a plain table of bytes, and circles of those who wait. */
/* modules: agent/files/lockbook.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agent/files/lockbook.h"

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
		h = lockbook_new(&book, a);
	assert_non_null(h);
	assert_int_equal(lockbook_reserve(&book, h, a, &spare), 0);
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
	struct lock_ask a = ask(1, 0, 0, PROTO_LOCK_SHARED);
	unsigned n = 0;

	(void)state;
	lockbook_init(&book);
	for (; lockbook_new(&book, &a); n++)
		a.file.ino++;
	assert_int_equal(n, LOCKBOOK_HOLDERS);
	clear();
}

/* Full of locks, it takes no more; but what is there can be given back, with holes. */
static void test_full(void **state)
{
	struct lock_ask a = ask(1, 4 * LOCKBOOK_RANGES, INT64_MAX, PROTO_LOCK_EXCLUSIVE);
	struct lock_ask other = ask(2, 1, 1, PROTO_LOCK_SHARED);
	struct lock_holder *h;
	struct lock_spare spare;

	(void)state;
	lockbook_init(&book);
	h = lockbook_new(&book, &a);
	while (lockbook_reserve(&book, h, &a, &spare) == 0) {
		lockbook_apply(&book, h, &a, &spare);
		a = ask(1, a.start - 2, a.start - 2,
			PROTO_LOCK_SHARED); /* backwards: each is the first */
	}
	assert_int_equal(book.nranges, LOCKBOOK_RANGES);
	assert_int_equal(h->nranges, LOCKBOOK_RANGES);
	assert_int_equal(lockbook_reserve(&book, NULL, &other, &spare), -ENOLCK);
	for (uint64_t n = 0; n < 100; n++) {
		a = ask(1, 5 * LOCKBOOK_RANGES + 2 * n, 5 * LOCKBOOK_RANGES + 2 * n, PROTO_UNLOCK);
		assert_int_equal(take(&a), 0);
	}
	assert_int_equal(book.nranges, LOCKBOOK_RANGES + 100);
	a = ask(1, 0, INT64_MAX, PROTO_UNLOCK);
	assert_int_equal(take(&a), 0);
	assert_int_equal(take(&other), 0);
	clear();
}

/* A change and what undoes it: what was there comes back, if it was the last change. */
static void test_undo(void **state)
{
	uint8_t want[OWNERS][BYTES] = {0};

	(void)state;
	lockbook_init(&book);
	srandom(2);
	for (unsigned n = 1; n < 20000; n++) {
		uint64_t start = (unsigned)random() % BYTES;
		uint64_t end = start + (unsigned)random() % (BYTES - start);
		struct lock_ask a = ask(0, start, end, (enum proto_lock_type)(random() % 3));
		struct lock_holder *h;
		struct lock_range piece;
		struct lock_undo u;

		a.token = n;
		assert_int_equal(take(&a), 0);
		h = lockbook_find(&book, file, 0);
		if (!h || random() % 2) {
			memset(want[0] + start, (int)a.type, end - start + 1);
			compare(want);
			continue;
		}
		assert_int_equal(lockbook_take_undo(&book, h, n + 1).token, 0);
		u = lockbook_take_undo(&book, h, n);
		assert_int_equal(u.token, n);
		for (uint64_t at = u.start; at <= u.end; at = piece.end + 1) {
			piece = lockbook_piece(u.was, at, u.end);
			a = ask(0, piece.start, piece.end, piece.type);
			assert_int_equal(take(&a), 0);
		}
		lockbook_free_undo(&u);
		compare(want);
	}
	clear();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges), cmocka_unit_test(test_whole_is_apart),
		cmocka_unit_test(test_circle), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_full),   cmocka_unit_test(test_undo),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
