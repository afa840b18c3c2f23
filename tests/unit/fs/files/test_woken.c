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

/* Closed, and reset: what was read from what was saved is nothing of the new sandbox's. */
static void test_closed_asleep(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	uint64_t dir;

	fx_asleep(fx);
	dir = fx_ino(fx, FILES "/d");
	fx_put(fx, TOP "ctl", "close");
	fx_put(fx, TOP "ctl", "reset");
	fx_put(fx, TOP "in", "y");
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	assert_error(fx_lookup(fx, dir, "b"), -ESTALE);
	assert_int_equal(s->nfiles, 0); /* it is not even looked for */
	fx_forget_ino(dir, 1);
	fake_exit(s, VM_DONE, 0);
}

static uint64_t look_up(struct fixture *fx, struct sandbox *s, const char *name,
			const struct vm_file_reply *found)
{
	struct req *req = fx_lookup(fx, fx_ino(fx, FILES), name);

	fake_answer(s, 0, found);
	assert_int_equal(req->kind, ANSWER_ENTRY);
	return req->ino;
}

/* A sandbox has an end: what the next one has by the same name and number is another directory. */
static void test_begun_anew(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);
	const uint64_t dir = look_up(fx, s, "d", &fx_a_dir);

	fake_die(s, PROBLEM_CLOSED);
	fx_put(fx, TOP "ctl", "reset");
	s = fx_ready(fx);
	assert_error(fx_lookup(fx, dir, "b"), -ESTALE);
	assert_int_equal(s->nfiles, 0);
	assert_int_not_equal(look_up(fx, s, "d", &fx_a_dir), dir);
	assert_error(fx_lookup(fx, dir, "b"), -ESTALE);
	/* Nor is it what was saved of that. */
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep"), 0);
	fx_saved(s);
	fake_settle();
	assert_error(fx_lookup(fx, dir, "b"), -ESTALE);
	fx_put(fx, TOP "in", "y");
	s = fx_woken(fx);
	assert_error(fx_lookup(fx, dir, "b"), -ESTALE);
	fake_exit(s, VM_DONE, 0);
}

/* What was made behind a checkpoint is not in it, though its number may be given again. */
static void test_gone_back(void **state)
{
	static const struct vm_file_reply later = {
		.node = 9, .attr = {.ino = 4713, .mode = S_IFDIR | 0755, .nlink = 2}};
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);
	uint64_t old, new;
	struct req *req;

	fx_checkpoint(fx, s, "c");
	old = look_up(fx, s, "d", &fx_a_dir);
	new = look_up(fx, s, "later", &later);
	assert_int_equal(fx_put(fx, TOP "ctl", "restore c"), 0);
	fx_put(fx, TOP "in", "y");
	s = fx_woken(fx);
	assert_error(fx_lookup(fx, new, "b"), -ESTALE);
	assert_int_equal(s->nfiles, 0);
	assert_int_not_equal(look_up(fx, s, "later", &later), new);
	req = fx_lookup(fx, old, "b");
	assert_string_equal(s->file[0].rq.name, "d");
	fake_answer(s, 0, &fx_a_dir);
	assert_string_equal(s->file[0].rq.name, "b");
	fake_answer(s, -ENOENT, NULL);
	assert_error(req, -ENOENT);
	fake_exit(s, VM_DONE, 0);
}

/* Nor is what was saved of the one that came next what was in that, whatever the number. */
static void test_another_life(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);
	const uint64_t dir = look_up(fx, s, "d", &fx_a_dir);
	uint64_t new;

	fx_checkpoint(fx, s, "a");
	fake_die(s, PROBLEM_CLOSED);
	fx_put(fx, TOP "ctl", "reset");
	s = fx_ready(fx);
	new = look_up(fx, s, "d", &fx_a_dir);
	fx_checkpoint(fx, s, "b");
	for (unsigned i = 0; i < 4; i++) {
		/* To its own, to that of the life before, and twice to the same. */
		assert_int_equal(
			fx_put(fx, TOP "ctl", i == 0 || i == 3 ? "restore b" : "restore a"), 0);
		fake_settle();
		assert_error(fx_lookup(fx, dir, "b"), -ESTALE);
		if (i == 0) {
			assert_int_equal(fx_lookup(fx, new, "b")->kind, ANSWER_ENTRY);
		} else {
			if (i != 2)
				assert_error(fx_lookup(fx, new, "b"), -ESTALE);
			new = fx_ino(fx, FILES "/d");
			assert_int_equal(fx_lookup(fx, new, "b")->kind, ANSWER_ENTRY);
		}
		fx_put(fx, TOP "in", "y");
		s = fx_woken(fx);
		assert_error(fx_lookup(fx, dir, "b"), -ESTALE);
		assert_int_equal(s->nfiles, 0);
		fake_exit(s, VM_DONE, 0);
	}
}

/* Return: the directory in so many others, of a sandbox that there is no more; *@ret_s is the one that there is now. */
static uint64_t deep_below(struct fixture *fx, unsigned levels, struct sandbox **ret_s)
{
	struct sandbox *s = fx_idle(fx);
	uint64_t dir = fx_ino(fx, FILES);

	s->known = &fx_a_dir;
	for (unsigned i = 0; i < levels; i++)
		dir = fx_lookup(fx, dir, "n")->ino;
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep"), 0);
	fx_saved(s);
	fake_settle();
	fx_put(fx, TOP "in", "y");
	*ret_s = fx_woken(fx);
	(*ret_s)->known = &fx_a_dir;
	return dir;
}

/* Answers that are known at once do not nest. */
static void test_a_deep_directory(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	const uint64_t dir = deep_below(fx, 1000, &s);

	assert_int_equal(fx_lookup(fx, dir, "x")->kind, ANSWER_ENTRY);
	assert_int_equal(s->nknown, 1001);
	assert_in_range(s->known_stack, (uintptr_t)__builtin_frame_address(0) - (32u << 10),
			(uintptr_t)__builtin_frame_address(0));
	assert_int_equal(fx_lookup(fx, dir, "x")->kind, ANSWER_ENTRY);
	assert_int_equal(s->nknown, 1002);
	fake_exit(s, VM_DONE, 0);
}

/* So deep nothing can have been saved, and it is not walked through for each request. */
static void test_too_deep_a_directory(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	const uint64_t dir = deep_below(fx, 1026, &s);

	assert_error(fx_lookup(fx, dir, "x"), -ESTALE);
	assert_int_equal(s->nknown, 0);
	fake_exit(s, VM_DONE, 0);
}

/* What changes something is held back also where the save begins while its directory is looked up. */
static void test_saved_meanwhile(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	struct req *made;
	uint64_t dir;

	fx_asleep(fx);
	dir = fx_ino(fx, FILES "/d");
	fx_put(fx, TOP "in", "y");
	s = fx_woken(fx);
	fake_exit(s, VM_DONE, 0);
	made = fx_create(fx, dir, "new");
	assert_int_equal(s->nfiles, 1);
	assert_int_equal(s->file[0].rq.op, VM_LOOKUP);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/c"), 0);
	fake_answer(s, 0, &fx_a_dir);
	assert_waits(made);
	assert_int_equal(s->nfiles, 0);
	fx_saved(s);
	assert_int_equal(s->nfiles, 1);
	assert_int_equal(s->file[0].rq.op, VM_CREATE);
	assert_int_equal(s->file[0].rq.node, fx_a_dir.node);
	fake_answer(s, -EACCES, NULL);
	assert_error(made, -EACCES);
	fx_forget_ino(dir, 1);
}

/* A directory by its name, of which the sandbox says the number. Return: whether it is the one that the kernel knows. */
static bool is_it(struct fixture *fx, struct sandbox *s, uint64_t dir, uint64_t number)
{
	struct vm_file_reply other = fx_a_dir;
	struct req *req = fx_lookup(fx, dir, "b");

	other.attr.ino = number;
	assert_int_equal(s->nfiles, 1);
	assert_string_equal(s->file[0].rq.name, "d");
	fake_answer(s, 0, &other);
	if (!s->nfiles) {
		assert_error(req, -ESTALE);
		return false;
	}
	assert_string_equal(s->file[0].rq.name, "b");
	fake_answer(s, -ENOENT, NULL);
	assert_error(req, -ENOENT);
	return true;
}

/* What was saved by an older agent has no numbers. Of one that was looked up there and found in the sandbox, it is known. */
static void test_number_comes_later(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	uint64_t dir;

	fx_asleep(fx);
	dir = fx_ino(fx, FILES "/d");
	fx_put(fx, TOP "in", "y");
	s = fx_woken(fx);
	assert_true(is_it(fx, s, dir, 31));
	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep"), 0);
	fx_saved(s);
	fake_settle();
	fx_put(fx, TOP "in", "y");
	s = fx_woken(fx);
	assert_false(is_it(fx, s, dir, 32));
	assert_true(is_it(fx, s, dir, 31));
	fx_forget_ino(dir, 1);
	fake_exit(s, VM_DONE, 0);
}

/* And of one that was found there by its name alone, it is another one in the sandbox that comes of that. */
static void test_number_is_lost(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);
	struct vm_file_reply numbered = fx_a_dir;
	uint64_t dir;

	numbered.attr.ino = 31;
	dir = fx_found(fx, s, fx_ino(fx, FILES), "d", &numbered);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
	fx_saved(s);
	assert_int_equal(fx_lookup(fx, dir, "b")->kind, ANSWER_ENTRY);
	fx_put(fx, TOP "in", "y");
	s = fx_woken(fx);
	assert_true(is_it(fx, s, dir, 40));
	fake_exit(s, VM_DONE, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_two_find_a_directory),
		fx_test(test_a_directory_that_is_none),
		fx_test(test_closed_asleep),
		fx_test(test_begun_anew),
		fx_test(test_gone_back),
		fx_test(test_another_life),
		fx_test(test_a_deep_directory),
		fx_test(test_too_deep_a_directory),
		fx_test(test_saved_meanwhile),
		fx_test(test_number_comes_later),
		fx_test(test_number_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
