/* SPDX-License-Identifier: Apache-2.0 */
/* Standard input of jobs: before their start, while they read, and when nobody does. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <poll.h>

#include "fs/session/job.h"
#include "fs/session/quota.h"
#include "tests/unit/fixture/fixture.h"

#define TOP  "python/demo/"
#define JOBS TOP "jobs/"

static void test_input_before_the_start(void **state)
{
	struct fixture *fx = *state;
	struct fake_job *j;
	struct file f;

	assert_int_equal(fx_mkdir(fx, JOBS "a"), 0);
	assert_int_equal(fx_put(fx, JOBS "a/stdin", "input"), 0);
	assert_int_equal(fx_put(fx, JOBS "a/in", "cat"), 0);
	fake_state(fake_sandbox(), SANDBOX_READY);
	j = fake_job(fake_sandbox(), 0);
	assert_true(j->in.open && j->in.eof);
	assert_memory_equal(j->in.got.data, "input", 5);
	f = fx_opened(fx, JOBS "a/stdin", O_WRONLY);
	assert_int_equal(fx_write(fx, &f, "late"), -EPIPE);
	fx_expect_error(fx, JOBS "a", "not-running");
	fx_close(fx, &f);
}

static void test_live_input(void **state)
{
	struct fixture *fx = *state;
	struct fake_job *j;
	struct file f, g;

	assert_int_equal(fx_mkdir(fx, JOBS "a"), 0);
	f = fx_opened(fx, JOBS "a/stdin", O_WRONLY);
	assert_int_equal(fx_put(fx, JOBS "a/in", "cat"), 0);
	assert_int_equal(fx_write(fx, &f, "one"), 0); /* it waits for the sandbox */
	fake_state(fake_sandbox(), SANDBOX_READY);
	j = fake_job(fake_sandbox(), 0);
	assert_int_equal(j->in.got.len, 3);
	g = fx_opened(fx, JOBS "a/stdin", O_WRONLY);
	assert_int_equal(fx_write(fx, &g, "two"), 0);
	fx_close(fx, &f);
	assert_false(j->in.eof);
	assert_int_equal(fx_write(fx, &g, "three"), 0);
	fx_close(fx, &g);
	assert_true(j->in.eof);
	assert_memory_equal(j->in.got.data, "onetwothree", 11);
}

static void test_back_pressure(void **state)
{
	static char block[1 << 18];
	struct fixture *fx = *state;
	struct sandbox *s;
	struct fake_job *j;
	struct file f, g;
	struct req *one, *two;

	assert_int_equal(fx_mkdir(fx, JOBS "a"), 0);
	f = fx_opened(fx, JOBS "a/stdin", O_WRONLY);
	g = fx_opened(fx, JOBS "a/stdin", O_WRONLY);
	assert_int_not_equal(f.ino, g.ino); /* neither is to wait for the other's lock */
	assert_int_equal(fx_put(fx, JOBS "a/in", "cat"), 0);
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	j = fake_job(s, 0);
	j->in.room = 0;
	assert_int_equal(fx_write_bytes(fx, &f, block, sizeof(block)), 0);
	assert_int_equal(fx_write_bytes(fx, &g, block, sizeof(block)), 0);
	one = fx_write_req(fx, &f, "first", 5, 0);
	two = fx_write_req(fx, &g, "second", 6, 0);
	assert_waits(one);
	assert_waits(two);
	assert_error(fx_write_req(fx, &g, "x", 1, O_NONBLOCK), -EAGAIN);
	req_interrupt(two);
	assert_error(two, -EINTR);
	two = fx_write_req(fx, &g, "third", 5, 0);
	fake_room(s, j->id, 100);
	assert_written(one, 5);
	fake_room(s, j->id, SIZE_MAX / 4);
	assert_written(two, 5);
	assert_int_equal(j->in.got.len, 2 * sizeof(block) + 10);
	assert_memory_equal(j->in.got.data + 2 * sizeof(block), "firstthird", 10);
	fx_close(fx, &f);
	fx_close(fx, &g);
	assert_true(j->in.eof);
}

/* Writes that wait are paid for by their user as well. */
static void test_waiting_writes_are_limited(void **state)
{
	static char block[1 << 20];
	struct file f[QUOTA_BYTES >> 20];
	struct fixture *fx = *state;
	struct sandbox *s;
	struct req *req = NULL;
	unsigned n = 0;

	assert_int_equal(fx_mkdir(fx, JOBS "a"), 0);
	f[0] = fx_opened(fx, JOBS "a/stdin", O_WRONLY);
	assert_int_equal(fx_put(fx, JOBS "a/in", "cat"), 0);
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	fake_job(s, 0)->in.room = 0;
	assert_int_equal(fx_write_bytes(fx, &f[0], block, sizeof(block)), 0);
	for (n = 1; n < ARRAY_SIZE(f); n++) {
		f[n] = fx_opened(fx, JOBS "a/stdin", O_WRONLY);
		req = fx_write_req(fx, &f[n], block, sizeof(block), 0);
		if (req->kind != ANSWER_NONE_YET)
			break;
	}
	assert_error(req, -EDQUOT);
	fx_expect_error(fx, "python/demo", "too-much-text");
	assert_int_equal(fx_rmdir(fx, JOBS "a"), 0);
	for (unsigned i = 0; i <= n; i++)
		fx_close(fx, &f[i]);
}

static void test_reader_closes(void **state)
{
	static char block[1 << 19];
	struct fixture *fx = *state;
	struct fake_job *j;
	struct sandbox *s;
	struct file f;
	struct req *req;

	assert_int_equal(fx_mkdir(fx, JOBS "a"), 0);
	f = fx_opened(fx, JOBS "a/stdin", O_WRONLY);
	assert_int_equal(fx_put(fx, JOBS "a/in", "head -c 1"), 0);
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	j = fake_job(s, 0);
	j->in.room = 0;
	assert_int_equal(fx_write_bytes(fx, &f, block, sizeof(block)), 0);
	req = fx_write_req(fx, &f, "more", 4, 0);
	assert_waits(req);
	fake_deaf(s, j->id);
	assert_error(req, -EPIPE);
	assert_int_equal(fx_write(fx, &f, "x"), -EPIPE);
	fx_close(fx, &f);
	fake_job_exit(s, j, VM_DONE, 0);
}

static void test_eof_by_ctl_and_kept_open(void **state)
{
	struct fixture *fx = *state;
	struct fake_job *j;
	struct file f;

	assert_int_equal(fx_mkdir(fx, JOBS "a"), 0);
	assert_int_equal(fx_put(fx, JOBS "a/config", "stdin = open\n"), 0);
	assert_int_equal(fx_put(fx, JOBS "a/in", "cat"), 0);
	fake_state(fake_sandbox(), SANDBOX_READY);
	j = fake_job(fake_sandbox(), 0);
	assert_true(j->in.open && !j->in.eof);
	f = fx_opened(fx, JOBS "a/stdin", O_WRONLY);
	assert_int_equal(fx_write(fx, &f, "late"), 0);
	assert_int_equal(j->in.got.len, 4);
	assert_int_equal(fx_put(fx, JOBS "a/ctl", "eof"), 0);
	assert_true(j->in.eof);
	assert_int_equal(fx_write(fx, &f, "more"), -EPIPE);
	fx_close(fx, &f);
}

/* A writer that stays open is the next run's, once there is one. */
static void test_session_input_goes_on(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, TOP "stdin", O_WRONLY);
	struct sandbox *s = fx_run(fx, "a");

	assert_int_equal(fx_write(fx, &f, "for a"), 0);
	assert_int_equal(fx_put(fx, TOP "in", "b"), 0); /* queued */
	assert_int_equal(fx_write(fx, &f, " too"), 0);
	assert_int_equal(s->in.got.len, 9);
	fake_exit(s, VM_DONE, 0);
	assert_string_equal(s->code, "b");
	assert_true(s->in.open && !s->in.eof);
	assert_int_equal(fx_write(fx, &f, "for b"), 0);
	assert_int_equal(s->in.got.len, 5);
	assert_int_equal(fx_put(fx, TOP "ctl", "eof"), 0);
	assert_true(s->in.eof);
	fx_close(fx, &f);
}

static void test_unmount_with_writers(void **state)
{
	static char block[1 << 19];
	struct fixture *fx = *state;
	struct file f;
	struct req *req;

	assert_int_equal(fx_mkdir(fx, JOBS "a"), 0);
	f = fx_opened(fx, JOBS "a/stdin", O_WRONLY);
	assert_int_equal(fx_put(fx, JOBS "a/in", "cat"), 0);
	assert_int_equal(fx_write_bytes(fx, &f, block, sizeof(block)), 0);
	req = fx_write_req(fx, &f, "more", 4, 0);
	assert_waits(req);
	fx_stop(fx);
	assert_error(req, -EPIPE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_input_before_the_start), fx_test(test_live_input),
		fx_test(test_back_pressure),	      fx_test(test_waiting_writes_are_limited),
		fx_test(test_reader_closes),	      fx_test(test_eof_by_ctl_and_kept_open),
		fx_test(test_session_input_goes_on),  fx_test(test_unmount_with_writers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
