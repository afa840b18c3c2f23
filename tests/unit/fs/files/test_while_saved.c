/* SPDX-License-Identifier: Apache-2.0 */
/* files/: what is asked for while the session is being saved, waits for that. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/fixture_files.c */
#include <errno.h>
#include <fuse_lowlevel.h>

#include "tests/unit/fixture/fixture_files.h"
#include "fs/fuse/ops.h"

#define TOP   "python/demo/"
#define FILES TOP "files"

/* What was saved is all that was ever answered. */
static void test_writes_wait_for_a_save(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct req *write, *read;

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
	read = fx_lookup(fx, fx_ino(fx, FILES), "a.txt");
	assert_int_equal(s->nfiles, 1);
	fake_answer(s, -ENOENT, NULL);
	assert_error(read, -ENOENT);
	write = fx_create(fx, fx_ino(fx, FILES), "new");
	assert_int_equal(s->nfiles, 0);
	fx_saved(s);
	fx_expect(fx, TOP "state", "idle\n"); /* it was used */
	assert_int_equal(s->nfiles, 1);
	fake_answer(s, -ENOSPC, NULL);
	assert_error(write, -ENOSPC);
}

/* What waits for a save that a reset has ended. */
static void test_writes_wait_for_a_save_that_is_reset(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct req *write;

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
	assert_true(s->saving);
	write = fx_create(fx, fx_ino(fx, FILES), "new");
	assert_int_equal(s->nfiles, 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "reset\n"), 0);
	assert_int_equal(s->nfiles, 1);
	fake_answer(s, -ENOSPC, NULL);
	assert_error(write, -ENOSPC);
}

/* It is tried with the files alone, and that can't begin. */
static void test_files_alone_do_not_begin(void **state)
{
	struct fixture *fx = *state;
	struct req *write;

	fx_asleep(fx);
	write = fx_create(fx, fx_ino(fx, FILES), "new");
	fake_faults.new_err = -ENOMEM;
	fake_die(fake_sandbox(), PROBLEM_NOT_RESTORED);
	fake_faults.new_err = 0;
	assert_error(write, -EIO);
}

/* Nobody is put to sleep whose files are open. */
static void test_open_files_keep_it_awake(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct fuse_file_info fi = {.flags = O_RDONLY};
	struct req *req;
	uint64_t ino;

	fx_put(fx, TOP "config", "idle_timeout_s = 10\n");
	fake_exit(s, VM_DONE, 0);
	req = fx_lookup(fx, fx_ino(fx, FILES), "a.txt");
	fake_answer(s, 0, &fx_a_file);
	ino = req->ino;
	req = fx_open_ino(fx, ino, O_RDONLY);
	fake_answer(s, 0, &fx_a_file);
	fi.fh = req->fh;
	clock_advance(35000);
	assert_false(s->saving);
	fx_expect(fx, TOP "state", "idle\n");
	req = req_new(0);
	ops.release(req_native(req), ino, &fi);
	clock_advance(10000);
	fx_saved(s);
	fx_expect(fx, TOP "state", "asleep\n");
}

/* At the end of a mount it sleeps all the same: there is nobody any more who would get what waits. */
static void test_writes_at_the_end(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct req *write;

	fake_exit(s, VM_DONE, 0);
	fx->fs->ending = true;
	fx_put(fx, TOP "ctl", "sleep\n");
	write = fx_create(fx, fx_ino(fx, FILES), "new");
	fx_saved(s);
	fx_expect(fx, TOP "state", "asleep\n");
	assert_error(write, -ESTALE);
}

/* Opened while it is being saved because nobody used it. */
static void test_opened_while_saved(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct req *req;
	uint64_t ino;

	fx_put(fx, TOP "config", "idle_timeout_s = 10\n");
	fake_exit(s, VM_DONE, 0);
	clock_advance(10000);
	assert_true(s->saving);
	req = fx_lookup(fx, fx_ino(fx, FILES), "a.txt");
	fake_answer(s, 0, &fx_a_file);
	ino = req->ino;
	req = fx_open_ino(fx, ino, O_RDONLY);
	fake_answer(s, 0, &fx_a_file);
	assert_int_equal(req->kind, ANSWER_OPEN);
	fx_saved(s);
	fx_expect(fx, TOP "state", "idle\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_writes_wait_for_a_save),
		fx_test(test_open_files_keep_it_awake),
		fx_test(test_files_alone_do_not_begin),
		fx_test(test_writes_wait_for_a_save_that_is_reset),
		fx_test(test_opened_while_saved),
		fx_test(test_writes_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
