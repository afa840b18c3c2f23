/* SPDX-License-Identifier: Apache-2.0 */
/* The estate: what was committed is there for an heir, whatever was under way, and nothing else; memory that is not
 * needed any more is given back. */
/* modules: tests/unit/fixture/estate_fixture.c */
/* modules: vm/base/estate.c vm/base/estate_file.c vm/base/io.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c */
/* modules: vm/base/memory.c vm/base/record.c vm/base/buf.c */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/estate_fixture.h"
#include "vm/base/estate.h"
#include "vm/base/estate_internal.h"
#include "vm/base/util.h"

#define STAYS (3u << 20) /* of memory that nothing needs: a beginning of each area, and the head */
#define BUSY  (9u << 20) /* likewise, right behind much that was done */

/* ---- memory that is refused ---- */

static int refuse; /* allocations, from the next one on */

int fallocate(int fd, int mode, off_t offset, off_t len)
{
	if (refuse && mode == 0) {
		errno = ENOSPC;
		return -1;
	}
	return (int)syscall(SYS_fallocate, fd, mode, offset, len);
}

/* ---- */

static void what_was_committed_is_there(void **state)
{
	struct estate *e = fresh();
	const void *fields;
	size_t len;

	(void)state;
	put(e, 2, 0, "two");
	put(e, 1, 0, "one");
	put(e, 1, 9, "");
	assert_int_equal(estate_put(e, KIND + 1, 1, 0, "other kind", 10), 0);
	assert_int_equal(estate_commit(e), 0);
	e = heir_of(e);
	assert_is(e, "2.0=two 1.0=one 1.9= ");
	assert_true(estate_has(e, KIND + 1, 1, 0));
	assert_false(estate_has(e, KIND + 1, 2, 0));
	assert_false(estate_get(e, KIND + 1, 2, 0, &fields, &len));
	assert_true(estate_get(e, KIND + 1, 1, 0, &fields, &len));
	assert_int_equal(len, 10);
	assert_memory_equal(fields, "other kind", len);

	/* Replaced in place of order; dropped and put again: the last. */
	put(e, 2, 0, "three");
	assert_int_equal(estate_drop(e, KIND, 1, 0), 0);
	assert_int_equal(estate_drop(e, KIND, 1, 0), 0);
	put(e, 1, 0, "again");
	assert_is(e, "2.0=three 1.9= 1.0=again ");
	assert_int_equal(estate_commit(e), 0);
	e = heir_of(e);
	assert_is(e, "2.0=three 1.9= 1.0=again ");

	estate_drop_all(e, KIND, 1);
	assert_is(e, "2.0=three ");
	assert_int_equal(estate_commit(e), 0);
	e = heir_of(e);
	assert_is(e, "2.0=three ");
	assert_true(estate_is_whole(e));
	estate_free(e);
	estate_free(NULL);
}

static void what_was_not_committed_is_not(void **state)
{
	struct estate *e = fresh();

	(void)state;
	put(e, 1, 0, "lost");
	e = heir_of(e);
	assert_is(e, "");
	put(e, 1, 0, "old");
	put(e, 2, 0, "stays");
	assert_int_equal(estate_commit(e), 0);
	put(e, 1, 0, "new");
	assert_int_equal(estate_drop(e, KIND, 2, 0), 0);
	assert_is(e, "1.0=new ");
	e = heir_of(e);
	assert_is(e, "1.0=old 2.0=stays ");
	/* Not what is left of the other one behind the end. */
	put(e, 3, 0, "x");
	assert_int_equal(estate_commit(e), 0);
	e = heir_of(e);
	assert_is(e, "1.0=old 2.0=stays 3.0=x ");
	estate_free(e);
}

static void equal_bytes_cost_nothing(void **state)
{
	struct estate *e = fresh();
	uint64_t tail;

	(void)state;
	put(e, 1, 0, "12345678");
	assert_int_equal(estate_commit(e), 0);
	tail = e->area[0].tail;
	put(e, 1, 0, "12345678");
	assert_int_equal(e->area[0].tail, tail);
	/* Within a turn as well, if it is as long. */
	put(e, 1, 0, "1234567x");
	assert_int_equal(e->area[0].tail, tail * 2);
	put(e, 1, 0, "1234567y");
	assert_int_equal(e->area[0].tail, tail * 2);
	e = heir_of(e);
	assert_is(e, "1.0=12345678 ");
	estate_free(e);
}

static int stop_at(void *data, const struct record *rec, uint64_t sub)
{
	(void)sub;
	return rec->key == *(uint64_t *)data ? -ECANCELED : 0;
}

static void each_can_be_ended(void **state)
{
	struct estate *e = fresh();
	uint64_t key = 2;

	(void)state;
	put(e, 1, 0, "");
	put(e, 2, 0, "");
	assert_int_equal(estate_each(e, KIND, stop_at, &key), -ECANCELED);
	key = 3;
	assert_int_equal(estate_each(e, KIND, stop_at, &key), 0);
	estate_free(e);
}

/* ---- memory ---- */

static void commit_until_tidy(struct estate *e)
{
	for (unsigned i = 0; i < 10000 && estate_is_untidy(e); i++)
		assert_int_equal(estate_commit(e), 0);
	assert_false(estate_is_untidy(e));
}

/* A while later: more stays where much was done right now. */
static void commit_until_rested(struct estate *e)
{
	for (unsigned i = 0; i < 256; i++)
		assert_int_equal(estate_commit(e), 0);
	commit_until_tidy(e);
}

/* As many sleeping sessions come and go. */
static void memory_is_given_back(void **state)
{
	static char text[4096];
	struct estate *e = fresh();

	(void)state;
	memset(text, 'x', sizeof(text));
	for (uint64_t i = 0; i < 10000; i++) {
		assert_int_equal(estate_put(e, KIND, i, 0, text, sizeof(text)), 0);
		assert_int_equal(estate_commit(e), 0);
	}
	assert_in_range(estate_live(e), 10000 * sizeof(text), 10000 * (sizeof(text) + 64));
	assert_in_range(estate_taken(e), estate_live(e), estate_live(e) + (6u << 20));
	for (uint64_t i = 0; i < 10000; i++) {
		if (i % 100)
			assert_int_equal(estate_drop(e, KIND, i, 0), 0);
	}
	assert_int_equal(estate_commit(e), 0);
	commit_until_tidy(e);
	assert_in_range(estate_taken(e), estate_live(e), estate_live(e) + BUSY);
	commit_until_rested(e);
	assert_in_range(estate_taken(e), estate_live(e), estate_live(e) + STAYS);
	e = heir_of(e);
	assert_int_equal(e->n, 100);
	assert_true(estate_has(e, KIND, 9900, 0));
	/* What was under way has no memory in the heir. */
	assert_in_range(estate_taken(e), estate_live(e), estate_live(e) + (2u << 20));
	estate_free(e);
}

/* Where there is little, there is little of what was replaced: as of a thousand sessions that are asleep. */
static void little_takes_little(void **state)
{
	static char text[2048];
	struct estate *e = fresh();
	size_t most = 0;

	(void)state;
	for (uint64_t i = 0; i < 20000; i++) {
		memcpy(text, &i, sizeof(i));
		assert_int_equal(estate_put(e, KIND, i % 1000, 0, text, sizeof(text)), 0);
		assert_int_equal(estate_commit(e), 0);
		most = MAX(most, estate_taken(e));
	}
	assert_in_range(estate_live(e), 1000 * sizeof(text), 1000 * (sizeof(text) + 64));
	assert_in_range(most, estate_live(e), 3 * estate_live(e) + STAYS);
	commit_until_rested(e);
	assert_in_range(estate_taken(e), estate_live(e), 2 * estate_live(e) + STAYS);
	estate_free(e);
}

/* A gibibyte is written beside 16 MiB that stay. */
static void memory_is_bounded(void **state)
{
	static char text[16384];
	struct estate *e = fresh();
	size_t most = 0;

	(void)state;
	for (uint64_t i = 0; i < 1024; i++)
		assert_int_equal(estate_put(e, KIND, i, 1, text, sizeof(text)), 0);
	for (uint64_t i = 0; i < (1u << 30) / sizeof(text); i++) {
		memcpy(text, &i, sizeof(i));
		assert_int_equal(estate_put(e, KIND, i % 3, 0, text, sizeof(text)), 0);
		assert_int_equal(estate_commit(e), 0);
		if (i % 64 == 0)
			most = MAX(most, estate_taken(e));
	}
	/* Three times, and what is asked for ahead. */
	assert_in_range(most, 16u << 20, (3 * 17u + 12) << 20);
	estate_free(e);
}

/* All that is written while it is being copied, in a model beside it. */
static void nothing_is_lost_on_the_way(void **state)
{
	static char text[300];
	uint32_t has[512] = {0}; /* length, 0: none; all bytes are the length's last */
	uint32_t had[512];
	struct estate *e = fresh();
	unsigned moves = 0;

	(void)state;
	srandom(1);
	for (unsigned turn = 0; turn < 20000; turn++) {
		const bool dies = turn % 500 == 499;

		memcpy(had, has, sizeof(has));
		for (unsigned n = (unsigned)random() % 12; n; n--) {
			const unsigned i = (unsigned)random() % 512, len = (unsigned)random() % 300;

			memset(text, (int)(len & 255), sizeof(text));
			has[i] = len;
			assert_int_equal(len ? estate_put(e, KIND, i / 8, i % 8, text, len)
					     : estate_drop(e, KIND, i / 8, i % 8),
					 0);
		}
		if (dies) {
			moves += e->move;
			memcpy(has, had, sizeof(has));
			e = heir_of(e);
		} else {
			assert_int_equal(estate_commit(e), 0);
		}
		if (turn % 100 && !dies)
			continue;
		for (unsigned i = 0; i < 512; i++) {
			struct estate_item *it = estate_find(e, KIND, i / 8, i % 8);

			assert_int_equal(it ? it->len : 0, has[i]);
			if (it) {
				memset(text, (int)(has[i] & 255), sizeof(text));
				assert_memory_equal(
					estate_entry_at(e, e->active, it->at[e->active]) + 1, text,
					has[i]);
			}
		}
	}
	assert_in_range(moves, 5, 10000);
	estate_free(e);
}

/* ---- errors ---- */

static void it_is_given_up_when_memory_is_refused(void **state)
{
	static char text[1u << 20];
	struct estate *e = fresh();

	(void)state;
	put(e, 1, 0, "one");
	assert_int_equal(estate_commit(e), 0);
	refuse = 1;
	put(e, 2, 0, "there is room for that");
	assert_int_equal(estate_put(e, KIND, 3, 0, text, sizeof(text)), -ENOSPC);
	refuse = 0;
	assert_given_up(e, -ENOSPC);

	e = fresh();
	assert_int_equal(estate_put(e, KIND, 3, 0, text, (size_t)RECORD_MAX + 1), -EFBIG);
	assert_given_up(e, -EFBIG);

	e = fresh();
	put(e, 1, 0, "one");
	assert_int_equal(estate_commit(e), 0);
	estate_give_up(e, -EIO);
	estate_give_up(e, -ENOMEM);
	assert_given_up(e, -EIO);

	refuse = 1;
	assert_int_equal(estate_new(&e), -ENOSPC);
	refuse = 0;
}

/* There is no memory for a copy: then it goes on without, as long as there is for the rest. */
static void tidying_may_fail(void **state)
{
	static char text[100000];
	struct estate *e = fresh();
	uint64_t i = 0;

	(void)state;
	for (; !e->moving && i < 1000; i++) {
		memcpy(text, &i, sizeof(i));
		assert_int_equal(estate_put(e, KIND, i % 16, 0, text, sizeof(text)), 0);
		if (e->area[0].tail / 2 > e->live)
			refuse = 1;
		assert_int_equal(estate_commit(e), 0);
		if (refuse)
			break;
	}
	assert_int_equal(refuse, 1);
	refuse = 0;
	assert_false(e->moving);
	assert_true(estate_is_whole(e));
	e = heir_of(e);
	assert_int_equal(e->n, 16);
	for (unsigned n = 0; n < 100; n++, i++) {
		memcpy(text, &i, sizeof(i));
		assert_int_equal(estate_put(e, KIND, i % 16, 0, text, sizeof(text)), 0);
		assert_int_equal(estate_commit(e), 0);
	}
	assert_true(e->move > 0);
	e = heir_of(e);
	assert_int_equal(e->n, 16);
	estate_free(e);
}

/* ---- regions ---- */

static void regions_are_as_they_were(void **state)
{
	struct estate *e = fresh();
	char *a, *b;

	(void)state;
	a = estate_region(e, 0, 5000);
	b = estate_region(e, ESTATE_REGIONS - 1, ESTATE_REGION_MAX / 8);
	assert_non_null(a);
	assert_non_null(b);
	assert_int_equal(a[8191], 0);
	memcpy(a, "without a commit", sizeof("without a commit"));
	b[ESTATE_REGION_MAX / 8 - 1] = 1;
	assert_ptr_equal(estate_region(e, 0, 5000), a);
	assert_null(estate_region(e, 0, 50000));
	assert_null(estate_region(e, ESTATE_REGIONS, 1));
	assert_null(estate_region(e, 1, 0));
	assert_null(estate_region(e, 1, ESTATE_REGION_MAX + 1));
	e = heir_of(e);
	a = estate_region(e, 0, 8192);
	b = estate_region(e, ESTATE_REGIONS - 1, ESTATE_REGION_MAX / 8);
	assert_string_equal(a, "without a commit");
	assert_int_equal(b[ESTATE_REGION_MAX / 8 - 1], 1);
	/* Also if the records are given up. */
	assert_int_equal(estate_put(e, KIND, 3, 0, a, (size_t)RECORD_MAX + 1), -EFBIG);
	assert_string_equal(a, "without a commit");
	refuse = 1;
	assert_null(estate_region(e, 2, 4096));
	refuse = 0;
	assert_non_null(estate_region(e, 2, 4096));
	estate_free(e);
}

/* ---- comparing ---- */

static void on_difference(void *data, enum estate_difference what, uint32_t kind, uint64_t key,
			  uint64_t sub)
{
	static const char *const name[] = {"missing", "other", "left"};
	char *out = data;

	(void)kind;
	snprintf(out + strlen(out), 256 - strlen(out), "%llu.%llu %s, ", (unsigned long long)key,
		 (unsigned long long)sub, name[what]);
}

static bool is_my_kind(uint32_t kind)
{
	return kind == KIND;
}

static void differences_are_told(void **state)
{
	char told[256] = "";
	struct estate_compare c = {.differs = on_difference, .data = told};
	struct estate *e = fresh();

	(void)state;
	put(e, 1, 0, "one");
	put(e, 2, 0, "two");
	put(e, 3, 0, "three");
	put(e, 4, 0, "four");
	assert_int_equal(estate_put(e, KIND + 1, 1, 0, "another", 7), 0);
	assert_int_equal(estate_commit(e), 0);

	c.is_whole = is_my_kind;
	estate_compare_begin(e, &c);
	put(e, 1, 0, "one");
	put(e, 2, 0, "TWO");
	put(e, 5, 0, "five");
	assert_int_equal(estate_drop(e, KIND, 4, 0), 0);
	assert_int_equal(estate_drop(e, KIND, 6, 0), 0);
	estate_compare_end(e);
	assert_string_equal(told, "2.0 other, 5.0 missing, 4.0 left, 3.0 left, ");
	/* Nothing was written. */
	assert_is(e, "1.0=one 2.0=two 3.0=three 4.0=four ");

	*told = '\0';
	c.is_whole = NULL;
	estate_compare_begin(e, &c);
	put(e, 1, 0, "one");
	put(e, 2, 0, "two");
	put(e, 3, 0, "three");
	put(e, 4, 0, "four");
	estate_compare_end(e);
	assert_string_equal(told, "1.0 left, ");
	assert_int_equal(estate_commit(e), 0);
	estate_free(e);
}

/* ---- sweeping ---- */

/* All is written once, and what was not is gone. */
static void leftovers_go(void **state)
{
	struct estate *e = fresh();

	(void)state;
	put(e, 1, 0, "as it is");
	put(e, 2, 0, "another");
	put(e, 3, 0, "not any more");
	put(e, 4, 0, "kept");
	put(e, 5, 1, "all");
	put(e, 5, 2, "of them");
	put(e, 6, 0, "dropped");
	put(e, 7, 3, "nor this");
	assert_int_equal(estate_put(e, KIND + 1, 1, 0, "another kind", 12), 0);
	assert_int_equal(estate_commit(e), 0);
	e = heir_of(e);
	estate_sweep_begin(e);
	put(e, 8, 0, "new");
	put(e, 1, 0, "as it is");
	put(e, 2, 0, "ANOTHER");
	estate_keeps(e, KIND, 4, 0);
	estate_keeps(e, KIND, 4, 1);
	estate_keeps_all(e, KIND, 5);
	assert_int_equal(estate_drop(e, KIND, 6, 0), 0);
	assert_int_equal(estate_sweep_end(e, is_my_kind), 0);
	assert_int_equal(estate_commit(e), 0);
	e = heir_of(e);
	assert_is(e, "1.0=as it is 2.0=ANOTHER 4.0=kept 5.1=all 5.2=of them 8.0=new ");
	assert_true(estate_has(e, KIND + 1, 1, 0));
	/* What is kept when nothing is swept is not kept then. */
	estate_keeps(e, KIND, 1, 0);
	estate_keeps_all(e, KIND, 5);
	estate_sweep_begin(e);
	assert_int_equal(estate_sweep_end(e, is_my_kind), 0);
	assert_is(e, "");
	/* There is no memory for it: nothing is true any more. */
	put(e, 1, 0, "one");
	estate_sweep_begin(e);
	estate_give_up(e, -ENOMEM);
	assert_int_equal(estate_sweep_end(e, is_my_kind), -ENOMEM);
	assert_given_up(e, -ENOMEM);
}

/* Who has had it shown by the dead one writes to it: that is not what the heir goes by, then or later. */
static void others_can_write(void **state)
{
	struct estate *e = fresh(), *heir;
	char *region = estate_region(e, 3, 10);
	const int fd = dup(estate_fd(e));

	(void)state;
	put(e, 1, 0, "as it was");
	memcpy(region, "region", 7);
	assert_int_equal(estate_commit(e), 0);
	assert_int_equal(estate_open(fd, &heir), 0);
	memset(e->area[e->active].map, 0xff, e->end);
	memset(e->head, 0xff, sizeof(*e->head));
	memset(region, 0xff, 7);
	assert_is(heir, "1.0=as it was ");
	assert_string_equal(estate_region(heir, 3, 10), "region");
	put(heir, 2, 0, "more");
	assert_int_equal(estate_commit(heir), 0);
	memset(e->area[e->active].map, 0xff, e->end);
	heir = heir_of(heir);
	assert_is(heir, "1.0=as it was 2.0=more ");
	assert_string_equal(estate_region(heir, 3, 10), "region");
	estate_free(heir);
	estate_free(e);
}

static void count(void *data)
{
	unsigned *n = data;

	(*n)++;
}

/* Who opens one that is large says so now and then, from the copy on. */
static void it_is_told_that_it_gets_on(void **state)
{
	static const char much[1u << 20] = "";
	struct estate *e = fresh(), *heir;
	const int fd = dup(estate_fd(e));
	unsigned n = 0;

	(void)state;
	for (uint64_t key = 1; key <= 8; key++)
		assert_int_equal(estate_put(e, 1, key, 0, much, sizeof(much) / 2), 0);
	assert_int_equal(estate_commit(e), 0);
	assert_int_equal(estate_new(&heir), 0);
	assert_int_equal(estate_take(heir, fd, count, &n), 0);
	assert_in_range(n, 4 + 8, 100); /* by the MiB, and by the record */
	assert_null(heir->gets_on);
	estate_free(heir);
	estate_free(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_committed_is_there),
		cmocka_unit_test(what_was_not_committed_is_not),
		cmocka_unit_test(equal_bytes_cost_nothing),
		cmocka_unit_test(each_can_be_ended),
		cmocka_unit_test(memory_is_given_back),
		cmocka_unit_test(little_takes_little),
		cmocka_unit_test(memory_is_bounded),
		cmocka_unit_test(nothing_is_lost_on_the_way),
		cmocka_unit_test(it_is_given_up_when_memory_is_refused),
		cmocka_unit_test(tidying_may_fail),
		cmocka_unit_test(regions_are_as_they_were),
		cmocka_unit_test(differences_are_told),
		cmocka_unit_test(leftovers_go),
		cmocka_unit_test(others_can_write),
		cmocka_unit_test(it_is_told_that_it_gets_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
