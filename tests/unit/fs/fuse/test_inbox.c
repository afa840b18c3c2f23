/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of a turn in shared memory: what an heir finds there, whenever the one before it died. */
/* modules: fs/fuse/inbox.c */
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

#define MAX 4096u

static int set_up(void **state)
{
	*state = calloc(1, inbox_size(MAX));
	return *state ? 0 : -1;
}

static int tear_down(void **state)
{
	free(*state);
	return 0;
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

	inbox_open(&in, *state, MAX);
	receive(&in, 2, 60);
	inbox_reset(&in); /* one is committed */
	receive(&in, 4, 41);
	receive(&in, 6, 100);
	assert_int_equal(inbox_load(&heir, *state, MAX, 1), 0);
	assert_int_equal(heir.last, 1);
	expect_next(&heir, 4, 41);
	assert_int_equal(heir.last, 2);
	/* The heir dies as well, when one of them is committed, and the other is not. */
	assert_int_equal(inbox_load(&in, *state, MAX, 2), 0);
	expect_next(&in, 6, 100);
	expect_none(&in);
	/* It goes on behind them. */
	receive(&in, 8, 50);
	assert_int_equal(in.last, 4);
	assert_int_equal(inbox_load(&heir, *state, MAX, 3), 0);
	expect_next(&heir, 8, 50);
	expect_none(&heir);
}

static void died_behind_the_commit(void **state)
{
	struct inbox in, heir;

	inbox_open(&in, *state, MAX);
	receive(&in, 2, 60);
	receive(&in, 4, 60);
	assert_int_equal(inbox_load(&heir, *state, MAX, 2), 0);
	expect_none(&heir);
	receive(&heir, 6, 70); /* where the first one was */
	assert_int_equal(inbox_load(&in, *state, MAX, 2), 0);
	expect_next(&in, 6, 70);
	expect_none(&in);
}

static void died_while_receiving(void **state)
{
	struct inbox in, heir;
	const struct fuse_in_header h = {.len = 48, .unique = 4};

	inbox_open(&in, *state, MAX);
	receive(&in, 2, 60);
	(void)inbox_begin(&in);
	assert_int_equal(inbox_load(&heir, *state, MAX, 0), 0);
	expect_next(&heir, 2, 60);
	expect_none(&heir);
	/* read(2) has come back, and nothing else has happened. */
	memcpy(inbox_begin(&heir), &h, sizeof(h));
	assert_int_equal(inbox_load(&in, *state, MAX, 1), 0);
	assert_non_null(inbox_next(&in, &(size_t){0}));
	expect_none(&in);
}

/* What lies behind the last one is of another turn, and looks like requests. */
static void old_ones_do_not_count(void **state)
{
	struct inbox in, heir;

	inbox_open(&in, *state, MAX);
	for (uint64_t i = 1; i <= 20; i++)
		receive(&in, 2 * i, 64);
	inbox_reset(&in);
	receive(&in, 100, 64);
	assert_int_equal(inbox_load(&heir, *state, MAX, 20), 0);
	expect_next(&heir, 100, 64);
	expect_none(&heir);
	inbox_reset(&heir);
	(void)inbox_begin(&heir);
	assert_int_equal(inbox_load(&in, *state, MAX, 21), 0);
	expect_none(&in);
}

static void has_room_for_two(void **state)
{
	struct inbox in;

	inbox_open(&in, *state, MAX);
	receive(&in, 2, MAX);
	assert_true(inbox_has_room(&in));
	receive(&in, 4, MAX);
	assert_false(inbox_has_room(&in));
	inbox_reset(&in);
	receive(&in, 6, 40);
	assert_true(inbox_has_room(&in));
	receive(&in, 8, MAX);
	assert_false(inbox_has_room(&in));
}

/* An inbox that nobody has used, and such as nobody writes. */
static void strange_ones(void **state)
{
	struct inbox in;
	uint64_t *first = *state;
	uint32_t *n = (uint32_t *)(first + 1), *len;

	assert_int_equal(inbox_load(&in, *state, MAX, 0), 0);
	expect_none(&in);
	receive(&in, 2, 64);
	*n = 3;
	assert_int_equal(inbox_load(&in, *state, MAX, 0), -EBADMSG);
	*n = UINT32_MAX;
	assert_int_equal(inbox_load(&in, *state, MAX, 0), -EBADMSG);
	*n = 1;
	*first = 2;
	assert_int_equal(inbox_load(&in, *state, MAX, 0), -EBADMSG);
	*first = 0;
	assert_int_equal(inbox_load(&in, *state, MAX, 0), -EBADMSG);
	*first = 1;
	len = (uint32_t *)(first + 8) + INBOX_MARGIN / sizeof(*len);
	assert_int_equal(*len, 64);
	for (*len = 0; *len < sizeof(struct fuse_in_header); ++*len) {
		*n = 1;
		assert_int_equal(inbox_load(&in, *state, MAX, 0), 0);
		expect_none(&in);
	}
	*n = 2;
	*len = MAX + 1;
	assert_int_equal(inbox_load(&in, *state, MAX, 0), -EBADMSG);
	*len = UINT32_MAX;
	assert_int_equal(inbox_load(&in, *state, MAX, 0), -EBADMSG);
}

#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(died_before_the_commit), test(died_behind_the_commit),
		test(died_while_receiving),   test(old_ones_do_not_count),
		test(has_room_for_two),	      test(strange_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
