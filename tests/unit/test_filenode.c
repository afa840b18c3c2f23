/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes below files/: numbers, lookups, parents, and which links may be shown. */
/* modules: fs/filenode.c */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fs/filenode.h"
#include "vm/util.h"

struct fixture {
	struct filenodes fns;
	unsigned ngone;
	uint64_t told;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	filenodes_init(&f->fns);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	filenodes_fini(&f->fns);
	free(f);
	return 0;
}

static void on_gone(void *data, const struct filenode *fn)
{
	struct fixture *f = data;

	f->ngone++;
	f->told += fn->told;
}

static uint32_t look(struct fixture *f, uint64_t remote, uint32_t parent)
{
	struct filenode *fn = filenode_look(&f->fns, 1, remote, parent, on_gone, f);

	assert_non_null(fn);
	assert_int_not_equal(fn->index, 0);
	assert_ptr_equal(filenode_get(&f->fns, fn->index), fn);
	return fn->index;
}

static void forget(struct fixture *f, uint32_t index, uint64_t n)
{
	filenode_forget(&f->fns, index, n, on_gone, f);
}

static void test_lookups(void **state)
{
	struct fixture *f = *state;
	uint32_t a = look(f, 10, 0), b = look(f, 11, 0);

	assert_int_not_equal(a, b);
	assert_int_equal(look(f, 10, 0), a);
	assert_int_equal(look(f, 10, 0), a);
	forget(f, a, 2);
	assert_int_equal(f->ngone, 0);
	forget(f, a, 1);
	assert_int_equal(f->ngone, 1);
	assert_int_equal(f->told, 3); /* all of them, in one message */
	assert_null(filenode_get(&f->fns, a));
	assert_int_equal(look(f, 12, 0), a); /* a free index is used again */
	forget(f, b, 100);		     /* more than there are */
	forget(f, b, 1);		     /* one that is gone */
	forget(f, 0, 1);
	forget(f, UINT32_MAX, 1);
	assert_int_equal(f->fns.n, 1);
}

static void test_epochs(void **state)
{
	struct fixture *f = *state;
	struct filenode *a = filenode_look(&f->fns, 1, 5, 0, NULL, NULL),
			*b = filenode_look(&f->fns, 2, 5, 0, NULL, NULL);

	assert_ptr_not_equal(a, b);
	assert_int_equal(a->epoch, 1);
	assert_int_equal(b->epoch, 2);
}

static void test_parents_stay_as_long_as_their_children(void **state)
{
	struct fixture *f = *state;
	uint32_t dir = look(f, 10, 0), sub = look(f, 11, dir), file = look(f, 12, sub);

	assert_int_equal(filenode_depth(&f->fns, dir), 0);
	assert_int_equal(filenode_depth(&f->fns, sub), 1);
	assert_int_equal(filenode_depth(&f->fns, file), 2);
	assert_int_equal(filenode_depth(&f->fns, 0), 0);
	assert_int_equal(filenode_depth(&f->fns, 999), 0);
	forget(f, dir, 1);
	forget(f, sub, 1);
	assert_int_equal(f->ngone, 0);
	assert_int_equal(filenode_depth(&f->fns, file), 2);
	forget(f, file, 1);
	assert_int_equal(f->ngone, 3);
	assert_int_equal(f->fns.n, 0);
}

static void test_moves(void **state)
{
	struct fixture *f = *state;
	uint32_t a = look(f, 10, 0), b = look(f, 11, 0), file = look(f, 12, a);

	forget(f, a, 1);
	assert_int_equal(look(f, 12, b), file);
	assert_int_equal(f->ngone, 1); /* nothing holds a any more */
	assert_int_equal(look(f, 12, 0), file);
	assert_int_equal(filenode_depth(&f->fns, file), 0);
	assert_int_equal(look(f, 12, 500), file); /* a parent that is not there */
	assert_int_equal(filenode_depth(&f->fns, file), 0);
	forget(f, b, 1);
	forget(f, file, 4);
	assert_int_equal(f->fns.n, 0);
}

/* The agent is hostile: it may say that directories contain each other. */
static void test_circles(void **state)
{
	struct fixture *f = *state;
	uint32_t a = look(f, 10, 0), b, c;

	assert_int_equal(look(f, 10, a), a); /* itself */
	assert_int_equal(filenode_depth(&f->fns, a), 0);
	b = look(f, 11, a);
	c = look(f, 12, b);
	assert_int_equal(look(f, 10, c), a);
	assert_int_equal(look(f, 10, b), a);
	assert_true(filenode_depth(&f->fns, a) < 4);
	assert_true(filenode_depth(&f->fns, c) < 4);
	forget(f, a, 4);
	forget(f, b, 1);
	forget(f, c, 1);
	assert_int_equal(f->fns.n, 0); /* nothing is kept alive by itself */
}

static void test_depth_of_a_long_chain(void **state)
{
	struct fixture *f = *state;
	uint32_t index = 0, first = 0;

	for (uint64_t i = 0; i < 5000; i++) {
		index = look(f, 10 + i, index);
		if (!first)
			first = index;
	}
	assert_int_equal(filenode_depth(&f->fns, index), 0); /* too deep to be true */
	for (uint32_t i = first; i <= index; i++)
		forget(f, i, 1);
	assert_int_equal(f->fns.n, 0);
}

static void test_random_sequences(void **state)
{
	struct fixture *f = *state;
	uint64_t lookups[64] = {0}, told = 0;

	srandom(1);
	for (int i = 0; i < 20000; i++) {
		uint32_t index = (uint32_t)random() % 40;
		const struct filenode *fn = filenode_get(&f->fns, index);

		if (random() % 3 == 0 && fn && lookups[index]) {
			uint64_t n = 1 + (uint64_t)random() % lookups[index];

			lookups[index] -= n;
			forget(f, index, n);
		} else {
			index = look(f, (uint64_t)random() % 30, (uint32_t)random() % 40);
			assert_true(index < 64);
			lookups[index]++;
			told++;
		}
		assert_true(filenode_depth(&f->fns, index) < 40);
	}
	for (uint32_t i = 0; i < 64; i++)
		if (lookups[i])
			forget(f, i, lookups[i]);
	assert_int_equal(f->fns.n, 0);
	assert_int_equal(f->told, told); /* the agent hears of each lookup once */
}

/* ---- links ---- */

static void test_links(void **state)
{
	static const struct {
		const char *target;
		unsigned depth;
		const char *shown; /* NULL: refused */
	} rows[] = {
		{"x", 0, "x"},
		{"./x", 0, "./x"},
		{"a/b/c", 0, "a/b/c"},
		{".", 0, "."},
		{"..", 0, NULL},
		{"../x", 0, NULL},
		{"../x", 1, "../x"},
		{"../../x", 1, NULL},
		{"../../x", 2, "../../x"},
		{".././../x", 2, ".././../x"},
		{".//..//../x", 1, NULL},
		{"..", 1, ".."},
		{"a/..", 1, NULL}, /* a may itself be a link */
		{"a/../..", 5, NULL},
		{"../a/../x", 5, NULL},
		{"a//../x", 5, NULL},
		{"a/..x", 0, "a/..x"},
		{"...", 0, "..."},
		{"/etc/passwd", 0, NULL},
		{"/", 3, NULL},
		{"/home/user", 0, "."},
		{"/home/user/", 0, "."},
		{"/home/user", 2, "../../"},
		{"/home/user/x", 0, "x"},
		{"/home/user//x/y", 1, "../x/y"},
		{"/home/user2/x", 0, NULL},
		{"/home/use", 0, NULL},
		{"/home/user/../x", 0, NULL},
		{"/home/user/../x", 3, NULL},
		{"/home/user/a/../../..", 3, NULL},
		{"//home/user/x", 0, NULL},
		{"/home/../home/user/x", 0, NULL},
		{"", 0, NULL},
	};
	char out[PATH_MAX];

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		int e = filenode_link(rows[i].target, strlen(rows[i].target), rows[i].depth, out,
				      sizeof(out));

		if (e != (rows[i].shown ? 0 : -EPERM))
			fail_msg("%s at %u: %d", rows[i].target, rows[i].depth, e);
		if (e == 0)
			assert_string_equal(out, rows[i].shown);
	}
}

static void test_links_of_any_bytes(void **state)
{
	char out[PATH_MAX], target[PATH_MAX + 10];

	(void)state;
	assert_int_equal(filenode_link("a\0b", 3, 0, out, sizeof(out)), -EPERM);
	assert_int_equal(filenode_link("a\0", 2, 0, out, sizeof(out)), -EPERM);
	memset(target, 'x', sizeof(target));
	assert_int_equal(filenode_link(target, PATH_MAX - 1, 0, out, sizeof(out)), 0);
	assert_int_equal(filenode_link(target, PATH_MAX, 0, out, sizeof(out)), -EPERM);
	assert_int_equal(filenode_link(target, sizeof(target), 0, out, sizeof(out)), -EPERM);
	memcpy(target, "/home/user/", 11);
	assert_int_equal(filenode_link(target, PATH_MAX - 1, 1, out, sizeof(out)), 0);
	for (size_t len = 11; len < PATH_MAX; len++) /* any that does not fit is refused, not cut */
		if (filenode_link(target, len, 1360, out, sizeof(out)) == 0)
			assert_int_equal(strlen(out), (size_t)1360 * 3 + len - 11);
	assert_int_equal(filenode_link("/home/user/a", 12, 2000, out, sizeof(out)), -EPERM);
	assert_int_equal(filenode_link("/home/user", 10, 2000, out, sizeof(out)), -EPERM);
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		test(test_lookups),
		test(test_epochs),
		test(test_parents_stay_as_long_as_their_children),
		test(test_moves),
		test(test_circles),
		test(test_depth_of_a_long_chain),
		test(test_random_sequences),
		test(test_links),
		test(test_links_of_any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
