/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are kept until they are answered: as they came, in their order. */
/* modules: fs/fuse/unanswered.c vm/base/sheets.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fs/fuse/unanswered.h"
#include "vm/base/sheets.h"

#define SIZE (1u << 20)

static char *add(struct unanswered *u, char *buffer, uint64_t unique, size_t len)
{
	memset(buffer, (int)(unique & 0x7f), len);
	assert_int_equal(unanswered_add(u, unique, &buffer, len), 0);
	assert_non_null(buffer);
	return buffer;
}

static void expect(const struct unanswered *u, const uint64_t *unique, const size_t *len, size_t n)
{
	const struct unanswered_request *r;
	size_t i = 0;

	TAILQ_FOREACH(r, &u->list, link) {
		assert_true(i < n);
		assert_int_equal(r->unique, unique[i]);
		assert_int_equal(r->len, len[i]);
		for (size_t at = 0; at < r->len; at++)
			assert_int_equal(r->data[at], (int)(unique[i] & 0x7f));
		i++;
	}
	assert_int_equal(i, n);
	assert_int_equal(u->n, n);
}

static void in_order(void **state)
{
	const uint64_t all[] = {2, 514, 4, 6}, some[] = {2, 4}; /* two of one bucket */
	const size_t lens[] = {80, SIZE, 100, 500000}, left[] = {80, 100};
	char *buffer = malloc(SIZE);
	struct unanswered u;

	(void)state;
	unanswered_init(&u, SIZE);
	for (unsigned i = 0; i < 4; i++)
		buffer = add(&u, buffer, all[i], lens[i]);
	expect(&u, all, lens, 4);
	unanswered_drop(&u, 8); /* was answered at once */
	unanswered_drop(&u, 514);
	unanswered_drop(&u, 6);
	expect(&u, some, left, 2);
	unanswered_fini(&u);
	free(buffer);
}

/* A stream of long ones, each answered before the next but one, needs no more than two buffers. */
static void buffers_come_back(void **state)
{
	char *const first = malloc(SIZE);
	char *buffer = first, *second = NULL;
	struct unanswered u;

	(void)state;
	unanswered_init(&u, SIZE);
	for (uint64_t n = 1; n < 100; n++) {
		buffer = add(&u, buffer, 2 * n, SIZE);
		unanswered_drop(&u, 2 * n);
		second = second ? second : buffer;
		assert_ptr_equal(buffer, n % 2 ? second : first);
	}
	assert_true(unanswered_is_whole(&u));
	unanswered_fini(&u);
	free(buffer);
}

/* Those that are recorded have no bytes here; those that are not are the last ones. */
static void recorded(void **state)
{
	char there[3][100];
	struct unanswered u;
	struct unanswered_request *r;

	(void)state;
	unanswered_init(&u, SIZE);
	for (unsigned i = 0; i < 3; i++) {
		memset(there[i], (int)i, sizeof(there[i]));
		unanswered_lend(&u, 2 * i + 2, there[i], sizeof(there[i]), UNANSWERED_LENT);
	}
	assert_false(unanswered_drop(&u, 4));
	r = unanswered_new(&u);
	assert_int_equal(r->unique, 2);
	assert_ptr_equal(r->data, there[0]);
	unanswered_recorded(&u, r);
	assert_null(r->data);
	r = unanswered_new(&u);
	assert_int_equal(r->unique, 6);
	unanswered_recorded(&u, r);
	assert_null(unanswered_new(&u));
	unanswered_lend(&u, 8, there[2], sizeof(there[2]), UNANSWERED_LENT);
	assert_int_equal(unanswered_new(&u)->unique, 8);
	assert_true(unanswered_drop(&u, 2));
	assert_int_equal(u.n, 2);
	/* There are no records any more: what was in them alone is lost, until it is answered. */
	assert_true(unanswered_is_whole(&u));
	unanswered_keep(&u);
	assert_false(unanswered_is_whole(&u));
	assert_int_equal(u.n, 2);
	assert_null(TAILQ_FIRST(&u.list)->data);
	r = TAILQ_LAST(&u.list, unanswered_list);
	assert_int_equal(r->unique, 8);
	assert_ptr_not_equal(r->data, there[2]);
	assert_memory_equal(r->data, there[2], sizeof(there[2]));
	assert_false(unanswered_drop(&u, 8));
	assert_false(unanswered_is_whole(&u));
	assert_false(unanswered_drop(&u, 6));
	assert_true(unanswered_is_whole(&u));
	assert_int_equal(u.n, 0);
	unanswered_fini(&u);
}

/* ... unless they can still be read. */
static void restored(void **state)
{
	char there[2][100] = {"one", "two"};
	struct unanswered_request *r;
	struct unanswered u;

	(void)state;
	unanswered_init(&u, SIZE);
	for (unsigned i = 0; i < 2; i++) {
		unanswered_lend(&u, 2 * i + 2, there[i], sizeof(there[i]), UNANSWERED_LENT);
		unanswered_recorded(&u, unanswered_new(&u));
	}
	unanswered_restore(&u, 6, there[0], sizeof(there[0]));
	unanswered_restore(&u, 4, there[1], 3); /* it is not that long */
	unanswered_keep(&u);
	assert_false(unanswered_is_whole(&u));
	unanswered_fini(&u);
	unanswered_init(&u, SIZE);
	for (unsigned i = 0; i < 2; i++) {
		unanswered_lend(&u, 2 * i + 2, there[i], sizeof(there[i]), UNANSWERED_LENT);
		unanswered_recorded(&u, unanswered_new(&u));
		unanswered_restore(&u, 2 * i + 2, there[i], sizeof(there[i]));
	}
	unanswered_keep(&u);
	assert_true(unanswered_is_whole(&u));
	r = unanswered_new(&u);
	assert_memory_equal(r->data, there[0], sizeof(there[0]));
	assert_ptr_not_equal(r->data, there[0]);
	assert_string_equal(TAILQ_LAST(&u.list, unanswered_list)->data, "two");
	unanswered_fini(&u);
}

/* Those on a sheet are there until they are answered, recorded or not, and hold it. */
static void on_sheets(void **state)
{
	char bytes[2][64];
	struct sheets sheets;
	struct unanswered_request *r;
	struct unanswered u;

	(void)state;
	sheets_init(&sheets, bytes, sizeof(bytes[0]), 2);
	unanswered_init(&u, SIZE);
	u.sheets = &sheets;
	assert_int_equal(unanswered_load_held(&u, 4, bytes[0], 60), 0);
	assert_int_equal(sheets.held[0], 1);
	assert_null(unanswered_new(&u));
	sheets_hold(&sheets, bytes[1]);
	unanswered_lend(&u, 2, bytes[1], 50, UNANSWERED_ON_SHEET);
	r = unanswered_new(&u);
	assert_int_equal(r->unique, 2);
	unanswered_recorded(&u, r);
	assert_ptr_equal(r->data, bytes[1]);
	unanswered_settle(&u, r);
	assert_ptr_equal(r->data, bytes[1]);
	/* There are no records any more. */
	unanswered_keep(&u);
	assert_true(unanswered_is_whole(&u));
	assert_int_equal(unanswered_new(&u)->unique, 4);
	assert_ptr_equal(r->data, bytes[1]);
	assert_int_equal(sheets.held[1], 1);
	assert_false(unanswered_drop(&u, 2));
	assert_int_equal(sheets.held[1], 0);
	unanswered_fini(&u);
	assert_int_equal(sheets.held[0], 0);
}

/* Handled again in an heir: whatever is not answered goes to the end, and keeps bytes that are nowhere else. */
static void handled_again(void **state)
{
	char text[] = "bytes";
	struct unanswered_request *r;
	struct unanswered u;

	(void)state;
	unanswered_init(&u, SIZE);
	assert_int_equal(unanswered_load(&u, 2, text, sizeof(text), true), 0);
	assert_int_equal(unanswered_load(&u, 4, text, sizeof(text), true), 0);
	assert_null(unanswered_new(&u));
	r = TAILQ_FIRST(&u.list);
	assert_string_equal(r->data, text);
	unanswered_requeue(&u, r);
	unanswered_settle(&u, r);
	assert_null(r->data);
	assert_int_equal(TAILQ_FIRST(&u.list)->unique, 4);
	unanswered_lend(&u, 6, text, sizeof(text), UNANSWERED_LENT);
	r = unanswered_new(&u);
	assert_int_equal(r->unique, 6);
	unanswered_settle(&u, r);
	assert_ptr_equal(r->data, text);
	assert_true(unanswered_drop(&u, 4));
	unanswered_fini(&u);
}

/* Of one that took the mount over: it is written down before it is handled again, and its bytes are there until then. */
static void written_before(void **state)
{
	char text[] = "bytes";
	struct unanswered_request *r;
	struct unanswered u;

	(void)state;
	unanswered_init(&u, SIZE);
	assert_int_equal(unanswered_load(&u, 2, text, sizeof(text), false), 0);
	r = unanswered_new(&u);
	assert_int_equal(r->unique, 2);
	unanswered_recorded(&u, r);
	assert_null(unanswered_new(&u));
	assert_string_equal(r->data, text);
	unanswered_requeue(&u, r);
	unanswered_settle(&u, r);
	assert_null(r->data);
	assert_true(unanswered_drop(&u, 2));
	/* ... or it goes to the end before that. */
	for (uint64_t n = 4; n <= 8; n += 2)
		assert_int_equal(unanswered_load(&u, n, text, sizeof(text), false), 0);
	unanswered_requeue(&u, unanswered_new(&u));
	assert_false(unanswered_drop(&u, 6));
	for (uint64_t n = 8; n >= 4; n -= 4) {
		r = unanswered_new(&u);
		assert_int_equal(r->unique, n);
		unanswered_recorded(&u, r);
	}
	assert_null(unanswered_new(&u));
	assert_int_equal(u.n, 2);
	unanswered_fini(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_order),	  cmocka_unit_test(restored),
		cmocka_unit_test(written_before), cmocka_unit_test(buffers_come_back),
		cmocka_unit_test(recorded),	  cmocka_unit_test(handled_again),
		cmocka_unit_test(on_sheets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
