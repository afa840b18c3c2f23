/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of a turn in shared memory: what an heir finds there, whenever the one before it died. */
/* modules: fs/fuse/inbox.c vm/base/sheets.c */
#include <errno.h>
#include <linux/fuse.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fs/fuse/inbox.h"

#define MAX	   4096u

#define NSHEETS	   3u
#define SHEET_ROOM (2 * (INBOX_MARGIN + MAX))

/* What outlives a daemon, and what it makes of it. */
struct memory {
	uint64_t head[INBOX_HEAD / sizeof(uint64_t)];
	unsigned char bytes[NSHEETS * SHEET_ROOM];
	struct sheets sheets;
};

static int set_up(void **state)
{
	*state = calloc(1, sizeof(struct memory));
	return *state ? 0 : -1;
}

static int tear_down(void **state)
{
	free(*state);
	return 0;
}

static void begin(struct inbox *in, struct memory *m)
{
	sheets_init(&m->sheets, m->bytes, SHEET_ROOM, NSHEETS);
	inbox_open(in, m->head, &m->sheets, MAX);
}

/* In an heir, whose records name these bytes, or NULL. */
static int load_held(struct inbox *in, struct memory *m, uint64_t handled, const char *held)
{
	sheets_init(&m->sheets, m->bytes, SHEET_ROOM, NSHEETS);
	if (held)
		sheets_hold(&m->sheets, held);
	return inbox_load(in, m->head, &m->sheets, MAX, handled);
}

static int load(struct inbox *in, struct memory *m, uint64_t handled)
{
	return load_held(in, m, handled, NULL);
}

static void commit(struct inbox *in)
{
	inbox_settle(in);
	inbox_reset(in);
}

/* As read(2) does it. */
static void receive(struct inbox *in, uint64_t unique, uint32_t len)
{
	const struct fuse_in_header h = {.len = len, .unique = unique};
	char *mem = inbox_begin(in);

	assert_int_equal((uintptr_t)mem % 8, 0);
	memset(mem, (int)unique, len);
	memcpy(mem, &h, sizeof(h));
	inbox_received(in, len);
}

static void expect_next(struct inbox *in, uint64_t unique, uint32_t len)
{
	struct fuse_in_header h;
	size_t n = 0;
	const char *mem = inbox_next(in, &n);

	assert_non_null(mem);
	memcpy(&h, mem, sizeof(h));
	assert_int_equal(n, len);
	assert_int_equal(h.unique, unique);
	for (size_t i = sizeof(h); i < len; i++)
		assert_int_equal(mem[i], (char)unique);
}

static void expect_none(struct inbox *in)
{
	size_t n;

	assert_null(inbox_next(in, &n));
}

static void died_before_the_commit(void **state)
{
	struct inbox in, heir;

	begin(&in, *state);
	receive(&in, 2, 60);
	commit(&in); /* one is committed */
	receive(&in, 4, 41);
	receive(&in, 6, 100);
	assert_int_equal(load(&heir, *state, 1), 0);
	assert_int_equal(heir.last, 1);
	expect_next(&heir, 4, 41);
	assert_int_equal(heir.last, 2);
	/* The heir dies as well, when one of them is committed, and the other is not. */
	assert_int_equal(load(&in, *state, 2), 0);
	expect_next(&in, 6, 100);
	expect_none(&in);
	/* It goes on behind them. */
	receive(&in, 8, 50);
	assert_int_equal(in.last, 4);
	assert_int_equal(load(&heir, *state, 3), 0);
	expect_next(&heir, 8, 50);
	expect_none(&heir);
}

static void died_behind_the_commit(void **state)
{
	struct inbox in, heir;

	begin(&in, *state);
	receive(&in, 2, 60);
	receive(&in, 4, 60);
	assert_int_equal(load(&heir, *state, 2), 0);
	expect_none(&heir);
	receive(&heir, 6, 70); /* where the first one was */
	assert_int_equal(load(&in, *state, 2), 0);
	expect_next(&in, 6, 70);
	expect_none(&in);
}

static void died_while_receiving(void **state)
{
	struct inbox in, heir;
	const struct fuse_in_header h = {.len = 48, .unique = 4};

	begin(&in, *state);
	receive(&in, 2, 60);
	(void)inbox_begin(&in);
	assert_int_equal(load(&heir, *state, 0), 0);
	expect_next(&heir, 2, 60);
	expect_none(&heir);
	/* read(2) has come back, and nothing else has happened. */
	memcpy(inbox_begin(&heir), &h, sizeof(h));
	assert_int_equal(load(&in, *state, 1), 0);
	assert_non_null(inbox_next(&in, &(size_t){0}));
	expect_none(&in);
}

/* What lies behind the last one is of another turn, and looks like requests. */
static void old_ones_do_not_count(void **state)
{
	struct inbox in, heir;

	begin(&in, *state);
	for (uint64_t i = 1; i <= 20; i++)
		receive(&in, 2 * i, 64);
	commit(&in);
	receive(&in, 100, 64);
	assert_int_equal(load(&heir, *state, 20), 0);
	expect_next(&heir, 100, 64);
	expect_none(&heir);
	commit(&heir);
	(void)inbox_begin(&heir);
	assert_int_equal(load(&in, *state, 21), 0);
	expect_none(&in);
}

static void has_room_for_two(void **state)
{
	struct inbox in;

	begin(&in, *state);
	receive(&in, 2, MAX);
	assert_true(inbox_has_room(&in));
	receive(&in, 4, MAX);
	assert_false(inbox_has_room(&in));
	commit(&in);
	receive(&in, 6, 40);
	assert_true(inbox_has_room(&in));
	receive(&in, 8, MAX);
	assert_false(inbox_has_room(&in));
}

/* What is held stays as it is, whatever comes behind it. */
static void held_ones_stay(void **state)
{
	char *mine, *other;
	struct memory *m = *state;
	struct inbox in;

	begin(&in, m);
	mine = inbox_begin(&in);
	receive(&in, 2, MAX - 200);
	assert_true(inbox_hold(&in, mine));
	commit(&in);
	/* On the same sheet, as long as one of any length has room there. */
	other = inbox_begin(&in);
	assert_ptr_equal(other, mine + MAX - 200 + INBOX_MARGIN);
	receive(&in, 4, 3000);
	commit(&in);
	assert_true(inbox_has_room(&in));
	other = inbox_begin(&in);
	assert_int_equal(sheets_number(&m->sheets, sheets_place(&m->sheets, other)), 1);
	receive(&in, 6, MAX);
	assert_true(inbox_hold(&in, other));
	commit(&in);
	/* A free one is needed for the next turn. */
	other = inbox_begin(&in);
	receive(&in, 8, MAX);
	assert_int_equal(in.sheet, 1);
	assert_true(inbox_hold(&in, other));
	commit(&in);
	other = inbox_begin(&in);
	assert_int_equal(in.sheet, 2);
	receive(&in, 10, MAX);
	assert_false(inbox_hold(&in, other));
	/* What is let go behind the commit may be named by it. */
	inbox_settle(&in);
	sheets_let_go(&m->sheets, mine);
	inbox_reset(&in);
	assert_int_equal(in.sheet, 2);
	other = inbox_begin(&in);
	receive(&in, 12, MAX);
	assert_true(inbox_hold(&in, other));
	commit(&in);
	receive(&in, 14, MAX);
	commit(&in);
	assert_int_equal(in.sheet, 0);
	for (unsigned i = sizeof(struct fuse_in_header); i < MAX; i++)
		assert_int_equal(other[i], 12);
}

/* ... also in an heir, wherever the turn was that was not committed. */
static void heirs_know_of_held_ones(void **state)
{
	struct memory *m = *state;
	struct inbox in, heir;
	char *mine;

	begin(&in, m);
	mine = inbox_begin(&in);
	receive(&in, 2, MAX - 200);
	assert_true(inbox_hold(&in, mine));
	commit(&in);
	receive(&in, 4, 100);
	assert_int_equal(load_held(&heir, m, 1, mine), 0);
	expect_next(&heir, 4, 100);
	expect_none(&heir);
	commit(&heir);
	receive(&heir, 6, 100);
	/* It dies between two turns. */
	commit(&heir);
	assert_int_equal(load_held(&in, m, 3, mine), 0);
	expect_none(&in);
	receive(&in, 8, MAX);
	receive(&in, 10, 40);
	for (unsigned i = sizeof(struct fuse_in_header); i < MAX - 200; i++)
		assert_int_equal(mine[i], 2);
}

/* An inbox that nobody has used, and such as nobody writes. */
static void strange_ones(void **state)
{
	struct inbox in;
	struct memory *m = *state;
	uint64_t *first = m->head, *place = first + 2;
	uint32_t *n = (uint32_t *)(first + 1), *len;

	assert_int_equal(load(&in, *state, 0), 0);
	expect_none(&in);
	assert_int_equal(*n, 0);
	receive(&in, 2, 64);
	*n = 3;
	assert_int_equal(load(&in, *state, 0), -EBADMSG);
	*n = UINT32_MAX;
	assert_int_equal(load(&in, *state, 0), -EBADMSG);
	*n = 1;
	*first = 2;
	assert_int_equal(load(&in, *state, 0), -EBADMSG);
	*first = 0;
	assert_int_equal(load(&in, *state, 0), -EBADMSG);
	*first = 1;
	*place = sizeof(m->bytes);
	assert_int_equal(load(&in, m, 0), -EBADMSG);
	*place = 4;
	assert_int_equal(load(&in, m, 0), -EBADMSG);
	*place = 0;
	/* More is held than there ever can be. */
	sheets_init(&m->sheets, m->bytes, SHEET_ROOM, NSHEETS);
	for (unsigned i = 0; i < NSHEETS; i++)
		sheets_hold(&m->sheets, m->bytes + i * SHEET_ROOM);
	assert_int_equal(inbox_load(&in, m->head, &m->sheets, MAX, 0), -EBADMSG);
	*n = 0;
	assert_int_equal(inbox_load(&in, m->head, &m->sheets, MAX, 0), -EBADMSG);
	*n = 1;
	len = (uint32_t *)(void *)m->bytes + INBOX_MARGIN / sizeof(*len);
	assert_int_equal(*len, 64);
	for (*len = 0; *len < sizeof(struct fuse_in_header); ++*len) {
		*n = 1;
		assert_int_equal(load(&in, *state, 0), 0);
		expect_none(&in);
	}
	*n = 2;
	*len = MAX + 1;
	assert_int_equal(load(&in, *state, 0), -EBADMSG);
	*len = UINT32_MAX;
	assert_int_equal(load(&in, *state, 0), -EBADMSG);
}

#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(died_before_the_commit), test(died_behind_the_commit),
		test(died_while_receiving),   test(old_ones_do_not_count),
		test(has_room_for_two),	      test(strange_ones),
		test(held_ones_stay),	      test(heirs_know_of_held_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
