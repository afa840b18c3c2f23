/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes below files/: numbers, lookups, and how deep they lie whatever the guest and the host move. */
/* modules: fs/files/filenode.c agent/protocol.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "fs/files/filenode.h"
#include "vm/base/util.h"

struct fixture {
	struct filenodes fns;
	unsigned ngone;
	uint64_t told;
};

static void on_gone(void *data, struct filenode *fn)
{
	struct fixture *f = data;

	f->ngone++;
	f->told += fn->told;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	filenodes_init(&f->fns, on_gone, f);
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

static uint32_t look_at(struct fixture *f, uint64_t remote, uint32_t mode, uint32_t parent,
			const char *name)
{
	const struct filenode_found found = {1, remote, 0, mode, parent, name};
	struct filenode *fn = filenode_look(&f->fns, &found);

	assert_non_null(fn);
	assert_int_not_equal(fn->index, 0);
	assert_ptr_equal(filenode_get(&f->fns, fn->index), fn);
	return fn->index;
}

static uint32_t look(struct fixture *f, uint64_t remote, uint32_t parent)
{
	return look_at(f, remote, S_IFREG, parent, "file");
}

static uint32_t dir(struct fixture *f, uint64_t remote, uint32_t parent, const char *name)
{
	return look_at(f, remote, S_IFDIR, parent, name);
}

static uint32_t symlink_at(struct fixture *f, uint64_t remote, uint32_t parent, const char *name)
{
	return look_at(f, remote, S_IFLNK, parent, name);
}

static uint32_t depth(const struct fixture *f, uint32_t index)
{
	return filenode_depth(&f->fns, index, NULL);
}

static bool exact(const struct fixture *f, uint32_t index)
{
	bool ret;

	(void)filenode_depth(&f->fns, index, &ret);
	return ret;
}

static void forget(struct fixture *f, uint32_t index, uint64_t n)
{
	filenode_forget(&f->fns, index, n);
}

static int move(struct fixture *f, uint32_t parent, const char *name, uint32_t newparent,
		const char *newname)
{
	const struct filenode_move m = {parent, newparent, name, newname};
	int e = filenode_may_move(&f->fns, &m);

	if (e == 0)
		filenode_moved(&f->fns, &m, false);
	return e;
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
	struct filenode_found found = {1, 5, 0, S_IFREG, 0, "x"};
	struct filenode *a = filenode_look(&f->fns, &found), *b;

	found.epoch = 2;
	b = filenode_look(&f->fns, &found);
	assert_ptr_not_equal(a, b);
	assert_int_equal(a->epoch, 1);
	assert_int_equal(b->epoch, 2);
}

/* Where one sandbox comes after another, what the kernel knows stays what is found, and so moves along. */
static void test_a_directory_goes_on(void **state)
{
	struct fixture *f = *state;
	struct filenode_found found = {1, 5, 50, S_IFDIR, 0, "d"};
	struct filenode *a = filenode_look(&f->fns, &found), *b;
	const uint32_t below = dir(f, 6, a->index, "below");

	found.epoch = 2;
	found.remote = 7;
	b = filenode_look(&f->fns, &found);
	assert_ptr_not_equal(a, b); /* these are side by side */
	forget(f, b->index, 1);
	f->fns.follows = true;
	f->told = 0;
	b = filenode_look(&f->fns, &found);
	assert_ptr_equal(a, b);
	assert_int_equal(a->epoch, 2);
	assert_int_equal(a->remote, 7);
	assert_int_equal(a->lookups, 2);
	assert_int_equal(a->told, 1); /* by this one's agent */
	assert_int_equal(filenode_get(&f->fns, below)->parent, a->index);
	assert_int_equal(move(f, 0, "d", 0, "e"), 0);
	assert_string_equal(a->name, "e");
	found.epoch = 3;
	assert_ptr_not_equal(filenode_look(&f->fns, &found), a); /* another one of its old name */
	found.mode = S_IFLNK;
	found.name = "e";
	assert_ptr_not_equal(filenode_look(&f->fns, &found), a);
}

/* What the host has removed is no more, though another state has it again; what it was replaced by goes on. */
static void test_a_directory_is_removed(void **state)
{
	struct fixture *f = *state;
	struct filenode_found found = {1, 5, 50, S_IFDIR, 0, "d"};
	struct filenode *a = filenode_look(&f->fns, &found), *b;

	f->fns.follows = true;
	filenode_removed(&f->fns, 0, "d");
	found.epoch = 2;
	b = filenode_look(&f->fns, &found);
	assert_ptr_not_equal(a, b);
	assert_false(filenode_is(a, 50) || filenode_is(a, 0));
	found = (struct filenode_found){2, 6, 60, S_IFDIR, 0, "e"};
	a = filenode_look(&f->fns, &found);
	assert_int_equal(move(f, 0, "e", 0, "d"), 0);
	found = (struct filenode_found){3, 7, 50, S_IFDIR, 0, "d"};
	assert_ptr_not_equal(filenode_look(&f->fns, &found), b);
	found = (struct filenode_found){4, 8, 60, S_IFDIR, 0, "d"};
	assert_ptr_equal(filenode_look(&f->fns, &found), a);
}

static void test_parents_stay_as_long_as_their_children(void **state)
{
	struct fixture *f = *state;
	uint32_t a = dir(f, 10, 0, "a"), b = dir(f, 11, a, "b"), l = symlink_at(f, 12, b, "l");

	assert_int_equal(depth(f, a), 0);
	assert_int_equal(depth(f, b), 1);
	assert_int_equal(depth(f, l), 2);
	assert_int_equal(depth(f, 0), 0);
	assert_int_equal(depth(f, 999), 0);
	assert_int_equal(filenode_depth_in(&f->fns, b, NULL), 2);
	forget(f, a, 1);
	forget(f, b, 1);
	assert_int_equal(f->ngone, 0);
	assert_int_equal(depth(f, l), 2);
	forget(f, l, 1);
	assert_int_equal(f->ngone, 3);
	assert_int_equal(f->fns.n, 0);
}

/* A file has one node for all its names, a link and a directory one for each. */
static void test_what_the_guest_has_twice(void **state)
{
	struct fixture *f = *state;
	uint32_t a = dir(f, 10, 0, "a"), b = dir(f, 11, a, "b");
	uint32_t deep = symlink_at(f, 12, b, "l"), top = symlink_at(f, 12, 0, "l");

	assert_int_equal(look_at(f, 13, S_IFREG, b, "x"), look_at(f, 13, S_IFREG, 0, "y"));
	assert_int_not_equal(deep, top);
	assert_int_equal(depth(f, deep), 2);
	assert_int_equal(depth(f, top), 0);
	assert_int_equal(symlink_at(f, 12, b, "l"), deep);
	assert_int_not_equal(dir(f, 11, 0, "b"), b); /* moved by the guest */
	assert_int_equal(depth(f, b), 1);
	assert_int_equal(depth(f, deep), 2);
	assert_int_not_equal(look_at(f, 12, S_IFREG, b, "l"), deep); /* nor has it a new type */
	assert_int_equal(dir(f, 14, 500, "x"), dir(f, 14, 0, "x"));  /* of no parent */
}

/* The agent is hostile: it may say that directories contain each other. */
static void test_circles(void **state)
{
	struct fixture *f = *state;
	uint32_t a = dir(f, 10, 0, "a"), in = dir(f, 10, a, "a"), b = dir(f, 11, in, "b"),
		 again = dir(f, 10, b, "a");

	assert_int_equal(depth(f, a), 0);
	assert_int_equal(depth(f, again), 3);
	assert_int_equal(move(f, 0, "a", b, "a"), 0); /* as no kernel would */
	assert_true(depth(f, again) < 5);
	forget(f, a, 1);
	forget(f, in, 1);
	forget(f, b, 1);
	forget(f, again, 1);
	assert_int_equal(f->fns.n, 0); /* nothing is kept alive by itself */
}

static void test_moved_up(void **state)
{
	struct fixture *f = *state;
	uint32_t a = dir(f, 10, 0, "a"), b = dir(f, 11, a, "b"), c = dir(f, 12, b, "c"),
		 l = symlink_at(f, 13, c, "l");

	filenode_count_on(&f->fns, l, 2); /* of the three that it may */
	assert_int_equal(move(f, b, "c", 0, "c"), -EXDEV);
	assert_int_equal(depth(f, l), 3);
	assert_int_equal(move(f, 0, "a", 0, "z"), 0);
	assert_int_equal(dir(f, 10, 0, "z"), a); /* keeps its node, and what is below it */
	assert_int_equal(move(f, b, "c", a, "c"), 0);
	assert_int_equal(depth(f, l), 2);
	assert_int_equal(dir(f, 12, a, "c"), c);
	assert_true(exact(f, l));
	assert_int_equal(move(f, a, "c", 0, "c"), -EXDEV);
	/* What is counted on has moved with it. */
	assert_int_equal(filenode_get(&f->fns, c)->counted, 1);
	forget(f, b, 1);
	assert_null(filenode_get(&f->fns, b)); /* nothing is in it any more */
}

/* Between the answer and the kernel's own move, it walks through what was there. */
static void test_moved_down(void **state)
{
	struct fixture *f = *state;
	uint32_t a = dir(f, 10, 0, "a"), b = dir(f, 11, a, "b"), c = dir(f, 12, 0, "c"),
		 l = symlink_at(f, 13, c, "l"), now;

	assert_int_equal(move(f, 0, "c", b, "c"), 0);
	assert_int_equal(depth(f, l), 1);
	assert_false(exact(f, l));
	now = dir(f, 12, b, "c");
	assert_int_not_equal(now, c); /* the kernel is there: a node of its own */
	assert_int_equal(depth(f, now), 2);
	assert_true(exact(f, now));
	assert_int_equal(depth(f, symlink_at(f, 13, now, "l")), 3);
	assert_int_equal(depth(f, l), 1);
	assert_int_equal(dir(f, 12, b, "c"), now);
	/* A link that is moved is judged likewise. */
	l = symlink_at(f, 14, 0, "m");
	assert_int_equal(move(f, 0, "m", b, "m"), 0);
	assert_int_equal(depth(f, l), 0);
	assert_int_equal(depth(f, symlink_at(f, 14, b, "m")), 2);
}

/* A rename that was refused in the end leaves less room, until the name is looked up again. */
static void test_not_moved(void **state)
{
	struct fixture *f = *state;
	uint32_t a = dir(f, 10, 0, "a"), b = dir(f, 11, a, "b"), l = symlink_at(f, 12, b, "l");
	const struct filenode_move m = {a, 0, "b", "x"};

	assert_int_equal(filenode_may_move(&f->fns, &m), 0);
	assert_int_equal(depth(f, l), 1);
	assert_int_not_equal(dir(f, 11, a, "b"), b);
	assert_int_equal(depth(f, symlink_at(f, 12, dir(f, 11, a, "b"), "l")), 2);
}

static void test_exchanged(void **state)
{
	struct fixture *f = *state;
	uint32_t a = dir(f, 10, 0, "a"), b = dir(f, 11, a, "b"), x = dir(f, 12, 0, "x");
	const struct filenode_move m = {a, 0, "b", "x"}, back = {0, a, "x", "b"};

	assert_int_equal(filenode_may_move(&f->fns, &m), 0);
	assert_int_equal(filenode_may_move(&f->fns, &back), 0);
	filenode_moved(&f->fns, &m, true);
	assert_int_equal(dir(f, 11, 0, "x"), b);
	assert_int_equal(depth(f, b), 0);
	assert_int_equal(depth(f, x), 0);
	assert_int_not_equal(dir(f, 12, a, "b"), x);
	assert_int_equal(depth(f, dir(f, 12, a, "b")), 1);
}

/* One kernel's names, a guest and a host that move things, and a table that must never take a node for
 * deeper than the kernel's name is. The kernel moves late: after as many steps as chance has it. */
struct name {
	uint32_t index, at,
		late_at; /* parents, as indexes into names; late_at: about to move there */
	uint64_t remote;
	char text[8];
	bool used, moving;
};

#define NAMES 24u

static uint32_t kernel_depth(const struct name *names, uint32_t i, bool late)
{
	uint32_t depth = 0;

	for (i = late ? names[i].late_at : names[i].at; i; i = names[i].at)
		depth++;
	return depth;
}

static bool below(const struct name *names, uint32_t i, uint32_t what)
{
	for (; i; i = names[i].at)
		if (i == what)
			return true;
	return false;
}

/* Whoever was shown a link climbs now. */
static void climb(struct fixture *f, struct name *names, const uint32_t *up)
{
	for (uint32_t i = 1; i < NAMES; i++) {
		if (!names[i].used)
			continue;
		assert_true(up[i] <= kernel_depth(names, i, false) + 1);
		assert_true(depth(f, names[i].index) <= kernel_depth(names, i, false));
	}
}

static void test_never_deeper_than_the_kernel(void **state)
{
	struct fixture *f = *state;
	struct name names[NAMES] = {{.used = true}};
	unsigned moves = 0, refused = 0, full = 0;
	uint32_t up[NAMES] = {0}, mover = 0;

	srandom(2);
	for (unsigned step = 0; step < 60000; step++) {
		uint32_t i = 1 + (uint32_t)random() % (NAMES - 1), to = (uint32_t)random() % NAMES;
		struct name *n = &names[i];

		if (!n->used && names[to].used && kernel_depth(names, to, false) < 8) {
			*n = (struct name){.used = true, .at = to, .remote = 10 + i};
			snprintf(n->text, sizeof(n->text), "n%u", step % 100000);
			n->index = dir(f, n->remote, names[to].index, n->text);
			up[i] = 0;
		} else if (n->used && mover && i == mover) { /* the kernel catches up */
			n->at = n->late_at;
			n->moving = false;
			mover = 0;
			to = dir(f, n->remote, names[n->at].index, n->text);
			if (to != n->index) { /* its old name is dropped, with all below */
				for (uint32_t j = 1; j < NAMES; j++)
					if (j != i && names[j].used && below(names, j, i))
						names[j].used = false;
				n->index = to;
				up[i] = 0;
			}
		} else if (n->used && !mover && names[to].used && !below(names, to, i)) {
			char text[8];

			snprintf(text, sizeof(text), "m%u", step % 100000);
			if (move(f, names[n->at].index, n->text, names[to].index, text)) {
				refused++;
				continue;
			}
			memcpy(n->text, text, sizeof(text));
			n->late_at = to;
			n->moving = true;
			mover = i;
			moves++;
		} else if (n->used) { /* a link in it is shown with all it may climb, or less */
			uint32_t l = symlink_at(f, 1000 + i, n->index, "l"), most = depth(f, l);

			full += most == kernel_depth(names, i, false) + 1;
			most = most ? (uint32_t)random() % (most + 1) : 0;
			filenode_count_on(&f->fns, l, most);
			up[i] = MAX(up[i], most);
		}
		climb(f, names, up);
		if (step % 500 == 499 && !mover) /* and some are forgotten by everybody */
			for (i = 1; i < NAMES; i++)
				names[i].used = false;
	}
	assert_true(moves > 500 && refused > 500 && full > 500);
}

static void test_random_sequences(void **state)
{
	static const char *const name[] = {"a", "b", "c"};
	static const uint32_t mode[] = {S_IFREG, S_IFDIR, S_IFLNK};
	struct fixture *f = *state;
	uint64_t lookups[20002] = {0}, told = 0;

	srandom(1);
	for (int i = 0; i < 20000; i++) {
		uint32_t index = (uint32_t)random() % 40, to = (uint32_t)random() % 40;
		const struct filenode *fn = filenode_get(&f->fns, index);

		if (random() % 2 == 0 && fn && lookups[index]) {
			uint64_t n = 1 + (uint64_t)random() % lookups[index];

			lookups[index] -= n;
			forget(f, index, n);
		} else if (random() % 4 == 0) {
			const struct filenode_move m = {index, to, name[random() % 3],
							name[random() % 3]};

			if (filenode_may_move(&f->fns, &m) == 0)
				filenode_moved(&f->fns, &m, random() % 2);
		} else {
			index = look_at(f, (uint64_t)random() % 30, mode[random() % 3], index,
					name[random() % 3]);
			assert_true(index < ARRAY_SIZE(lookups));
			lookups[index]++;
			told++;
		}
		(void)depth(f, index);
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(lookups); i++)
		if (lookups[i])
			forget(f, i, lookups[i]);
	assert_int_equal(f->fns.n, 0);
	assert_int_equal(f->told, told); /* the agent hears of each lookup once */
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		test(test_lookups),
		test(test_epochs),
		test(test_a_directory_goes_on),
		test(test_a_directory_is_removed),
		test(test_parents_stay_as_long_as_their_children),
		test(test_what_the_guest_has_twice),
		test(test_circles),
		test(test_moved_up),
		test(test_moved_down),
		test(test_not_moved),
		test(test_exchanged),
		test(test_never_deeper_than_the_kernel),
		test(test_random_sequences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
