/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel knows of files/ from before the session woke, and goes on with. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/fixture_files.c */
#include <errno.h>

#include "tests/unit/fixture/fixture_files.h"

#define TOP   "python/demo/"
#define FILES TOP "files"

/* Return: of two requests about the directory, which is looked up, for each of them, the first one. */
static struct req *in_two(struct fixture *fx, struct sandbox **ret_s, uint64_t *ret_dir,
			  struct req **ret_second)
{
	struct req *first;

	fx_asleep(fx);
	*ret_dir = fx_ino(fx, FILES "/d");
	first = fx_lookup(fx, *ret_dir, "b");
	assert_int_equal(first->kind, ANSWER_ENTRY); /* asleep */
	fx_forget_ino(first->ino, 1);
	fx_put(fx, TOP "in", "y");
	*ret_s = fx_woken(fx);
	first = fx_lookup(fx, *ret_dir, "b");
	*ret_second = fx_lookup(fx, *ret_dir, "c");
	assert_int_equal((*ret_s)->nfiles, 2);
	assert_int_equal((*ret_s)->file[1].rq.op, VM_LOOKUP);
	assert_string_equal((*ret_s)->file[1].rq.name, "d");
	return first;
}

static void test_two_find_a_directory(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	struct req *first, *second;
	uint64_t dir;

	first = in_two(fx, &s, &dir, &second);
	fake_answer(s, 0, &fx_a_dir);
	assert_int_equal(s->forgotten, 0);
	fake_answer(s, 0, &fx_a_dir);
	assert_int_equal(s->forgotten, 1); /* once is enough */
	assert_int_equal(s->nfiles, 2);
	assert_string_equal(s->file[0].rq.name, "b");
	assert_int_equal(s->file[0].rq.node, fx_a_dir.node);
	assert_string_equal(s->file[1].rq.name, "c");
	fake_answer(s, -ENOENT, NULL);
	fake_answer(s, -ENOENT, NULL);
	assert_error(first, -ENOENT);
	assert_error(second, -ENOENT);
	fx_forget_ino(dir, 1);
	assert_int_equal(s->forgotten, 2);
	fake_exit(s, VM_DONE, 0);
}

/* It is gone; it is something else; the sandbox dies meanwhile. */
static void test_a_directory_that_is_none(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	struct req *first, *second;
	uint64_t dir;

	first = in_two(fx, &s, &dir, &second);
	fake_answer(s, -ENOENT, NULL);
	assert_error(first, -ESTALE);
	fake_answer(s, 0, &fx_a_file);
	assert_error(second, -ESTALE);
	assert_int_equal(s->forgotten, 1);
	first = fx_lookup(fx, dir, "b");
	assert_waits(first);
	fake_die(s, PROBLEM_CLOSED);
	assert_error(first, -ESTALE);
	fx_forget_ino(dir, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_two_find_a_directory),
		fx_test(test_a_directory_that_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
