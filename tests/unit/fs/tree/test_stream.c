/* SPDX-License-Identifier: Apache-2.0 */
/* Reads that wait: for output, for the end of a run, for a run to begin. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <poll.h>

#include "tests/unit/fixture/fixture.h"

#define TOP "python/demo/"

static void test_before_the_first_run(void **state)
{
	struct fixture *fx = *state;

	fx_expect(fx, TOP "stdout", "");
	fx_expect(fx, TOP "output", "");
	fx_expect(fx, TOP "summary", "no run yet\n");
	assert_false(fx_exists(fx, TOP "exit_code"));
	assert_false(fx_exists(fx, TOP "runs/latest"));
	fx_expect(fx, TOP "state", "new\n");
	assert_int_equal(fake_count(), 0);
}

static void test_follow_output(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct file out = fx_opened(fx, TOP "stdout", O_RDONLY),
		    both = fx_opened(fx, TOP "output", O_RDONLY),
		    code = fx_opened(fx, TOP "exit_code", O_RDONLY);
	struct req *r1 = fx_read(fx, &out, 100, 0), *r2 = fx_read(fx, &both, 100, 0),
		   *r3 = fx_read(fx, &code, 100, 0);

	assert_int_equal(req_waiting(), 3);
	assert_true(fx_size(fx, TOP "stdout") >
		    2 << 20); /* while it is open: more than there can be */
	assert_true(fx_size(fx, TOP "exit_code") > 100);
	assert_int_equal(fx_size(fx, TOP "stderr"), 0);
	fake_output(s, VM_STDOUT, "one\n");
	assert_bytes(r1, "one\n");
	assert_bytes(r2, "one\n");
	assert_waits(r3);
	assert_true(fx_size(fx, TOP "stdout") > 2 << 20); /* not a growing size */
	assert_error(fx_read(fx, &out, 100, FX_CACHED), -EIO);
	assert_error(fx_read(fx, &code, 100, FX_CACHED), -EIO);
	assert_int_equal(fx_size(fx, TOP "runs/1/stdout"), 4);
	out.offset = both.offset = 4;
	r1 = fx_read(fx, &out, 100, 0);
	r2 = fx_read(fx, &both, 100, 0);
	fake_output(s, VM_STDERR, "two\n");
	assert_waits(r1);
	assert_bytes(r2, "two\n");
	both.offset = 8;
	r2 = fx_read(fx, &both, 100, 0);
	fake_exit(s, VM_DONE, 3);
	assert_bytes(r1, "");
	assert_bytes(r2, "");
	assert_bytes(r3, "3\n");
	assert_int_equal(fx_size(fx, TOP "stdout"), 4);
	assert_int_equal(fx_size(fx, TOP "output"), 8);
	assert_int_equal(fx_size(fx, TOP "exit_code"), 2);
	fx_expect(fx, TOP "output", "one\ntwo\n");
	code.offset = 1;
	assert_bytes(fx_read(fx, &code, 1, 0), "\n");
	code.offset = 9;
	assert_bytes(fx_read(fx, &code, 1, 0), "");
	fx_close(fx, &out);
	fx_close(fx, &both);
	fx_close(fx, &code);
}

static void test_below_runs_nothing_waits_but_wait(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct file f;
	struct req *r;

	fake_output(s, VM_STDOUT, "so far");
	fx_expect(fx, TOP "runs/1/stdout", "so far");
	fx_expect(fx, TOP "runs/1/stderr", "");
	fx_expect(fx, TOP "runs/1/state", "running\n");
	assert_false(fx_exists(fx, TOP "runs/1/exit_code"));
	f = fx_opened(fx, TOP "runs/1/wait", O_RDONLY);
	r = fx_read(fx, &f, 10, 0);
	assert_waits(r);
	assert_int_equal(fx_size(fx, TOP "runs/1/wait"), 4096);
	fake_exit(s, VM_DONE, 200);
	assert_bytes(r, "200\n");
	fx_expect(fx, TOP "runs/1/exit_code", "200\n");
	assert_int_equal(fx_size(fx, TOP "runs/1/wait"), 4);
	assert_int_equal(fx_size(fx, TOP "runs/1/exit_code"), 4);
	fx_close(fx, &f);
}

static void test_interrupt_and_nonblock(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct file f = fx_opened(fx, TOP "stdout", O_RDONLY),
		    g = fx_opened(fx, TOP "exit_code", O_RDONLY);
	struct req *first = fx_read(fx, &f, 10, 0), *second = fx_read(fx, &f, 10, 0), *early;

	assert_error(fx_read(fx, &f, 10, O_NONBLOCK), -EAGAIN);
	assert_error(fx_read(fx, &g, 10, O_NONBLOCK), -EAGAIN);
	req_interrupt(first);
	assert_error(first, -EINTR);
	assert_waits(second);
	fake_output(s, VM_STDOUT, "y");
	assert_bytes(second, "y");
	assert_bytes(fx_read(fx, &f, 10, O_NONBLOCK), "y");
	f.offset = 1;
	early = fx_read(fx, &f, 10, 0);
	fake_output(s, VM_STDERR, "tries it again in vain");
	assert_waits(early);
	req_interrupt(early);
	assert_error(early, -EINTR);
	fx_close(fx, &f);
	fx_close(fx, &g);
}

static void test_open_is_bound_to_its_run(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "first");
	struct file old = fx_opened(fx, TOP "stdout", O_RDONLY), young;
	struct req *r;

	fx_put(fx, TOP "in", "second");
	young = fx_opened(fx, TOP "stdout", O_RDONLY);
	r = fx_read(fx, &young, 10, 0);
	fake_output(s, VM_STDOUT, "1");
	fake_exit(s, VM_DONE, 0);
	assert_waits(r);
	assert_string_equal(s->code, "second");
	assert_bytes(fx_read(fx, &old, 10, 0), "1");
	fake_output(s, VM_STDOUT, "2");
	assert_bytes(r, "2");
	old.offset = 1;
	assert_bytes(fx_read(fx, &old, 10, 0), ""); /* its run has ended */
	assert_int_equal(fx_rmdir(fx, TOP "runs/1"), 0);
	old.offset = 0;
	assert_bytes(fx_read(fx, &old, 10, 0), "1"); /* also when it is history */
	fx_close(fx, &old);
	fx_close(fx, &young);
}

/* ---- the moment between FLUSH and RELEASE ---- */

/* Code in an open `in`: what is read next is what becomes of it, and not the run before. */
static void test_open_input(void **state)
{
	struct fixture *fx = *state;
	struct file in, out;
	struct req *r;
	struct sandbox *s = fx_run(fx, "old");

	fake_output(s, VM_STDOUT, "old");
	fake_exit(s, VM_DONE, 0);
	in = fx_opened(fx, TOP "in", O_WRONLY | O_TRUNC);
	fx_expect(fx, TOP "stdout", "old"); /* nothing is in it */
	fx_write(fx, &in, "new");
	assert_int_equal(fx_size(fx, TOP "stdout"), 0);
	assert_int_equal(fx_size(fx, TOP "exit_code"), 0);
	out = fx_opened(fx, TOP "stdout", O_RDONLY);
	assert_error(fx_read(fx, &out, 10, O_NONBLOCK), -EAGAIN);
	assert_error(fx_read(fx, &out, 10, FX_CACHED), -EIO);
	r = fx_read(fx, &out, 10, 0);
	fx_flush(fx, &in); /* but a child holds it open */
	clock_advance(5000);
	assert_waits(r);
	fx_expect(fx, TOP "runs/1/stdout", "old");
	fx_release(fx, &in);
	assert_waits(r);
	fake_output(s, VM_STDOUT, "new");
	assert_bytes(r, "new");
	fx_close(fx, &out);
}

/* Who keeps it open for ever holds readers up no longer than a run would. */
static void test_input_that_stays(void **state)
{
	struct fixture *fx = *state;
	struct file in = fx_opened(fx, TOP "in", O_WRONLY | O_TRUNC), out, code;
	struct req *r, *q;

	fx_write(fx, &in, "x");
	fx_flush(fx, &in);
	assert_true(fx_exists(fx, TOP "exit_code"));
	out = fx_opened(fx, TOP "stdout", O_RDONLY);
	code = fx_opened(fx, TOP "exit_code", O_RDONLY);
	r = fx_read(fx, &out, 10, 0);
	clock_advance(10000);
	q = fx_read(fx, &code, 10, 0);
	clock_advance(19999);
	assert_waits(r);
	clock_advance(1);
	assert_error(r, -ETIMEDOUT);
	fx_expect_error(fx, "python/demo", "in-open");
	assert_waits(q);
	req_interrupt(q);
	assert_error(q, -EINTR);
	r = fx_read(fx, &out, 10, 0); /* again */
	assert_waits(r);
	fx_ftruncate(fx, &in, 0); /* nothing is left that could run */
	fx_close(fx, &in);
	assert_bytes(r, "");
	fx_close(fx, &code);
	fx_close(fx, &out);
}

static void test_session_removed_while_input_pends(void **state)
{
	struct fixture *fx = *state;
	struct file in = fx_opened(fx, TOP "in", O_WRONLY | O_TRUNC),
		    out = fx_opened(fx, TOP "stdout", O_RDONLY), late;
	struct req *r;

	fx_write(fx, &in, "x");
	fx_flush(fx, &in);
	late = fx_opened(fx, TOP "stdout", O_RDONLY);
	r = fx_read(fx, &late, 10, 0);
	assert_waits(r);
	fx_rmdir(fx, "python/demo");
	assert_error(r, -ESTALE);
	assert_error(fx_read(fx, &late, 10, 0), -ESTALE); /* must not wait for what never comes */
	assert_bytes(fx_read(fx, &out, 10, 0), "");
	fx_close(fx, &late);
	fx_close(fx, &out);
	fx_close(fx, &in);
}

/* ---- poll(2) ---- */

static void test_poll(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct file f = fx_opened(fx, TOP "stdout", O_RDONLY),
		    code = fx_opened(fx, TOP "exit_code", O_RDONLY);
	struct pollwait *p1 = pollwait_new(), *p2 = pollwait_new(), *p3 = pollwait_new();

	assert_int_equal(fx_poll(fx, &f, p1)->number, 0);
	assert_int_equal(fx_poll(fx, &f, p2)->number, 0); /* in place of p1 */
	assert_true(p1->freed && !p1->notified);
	assert_int_equal(fx_poll(fx, &code, p3)->number, 0);
	fake_output(s, VM_STDOUT, "y");
	assert_true(p2->notified && p2->freed);
	assert_true(p3->notified && p3->freed);
	assert_int_equal(fx_poll(fx, &f, NULL)->number, POLLIN | POLLRDNORM);
	assert_int_equal(fx_poll(fx, &code, NULL)->number, 0);
	fake_output(s, VM_STDOUT, "z"); /* one shot: nobody is told twice */
	assert_bytes(fx_read(fx, &f, 10, 0), "yz");
	assert_int_equal(fx_poll(fx, &f, NULL)->number, 0); /* all read */
	p1 = pollwait_new();
	fx_poll(fx, &f, p1);
	fake_exit(s, VM_DONE, 0);
	assert_true(p1->notified);
	assert_int_equal(fx_poll(fx, &f, NULL)->number, POLLIN | POLLRDNORM);
	assert_int_equal(fx_poll(fx, &code, NULL)->number, POLLIN | POLLRDNORM);
	p1 = pollwait_new();
	fx_poll(fx, &f, p1);
	fx_close(fx, &f); /* gives it back */
	assert_true(p1->freed);
	fx_close(fx, &code);
	f = fx_opened(fx, TOP "state", O_RDONLY); /* never waits */
	assert_true(fx_poll(fx, &f, pollwait_new())->number & POLLIN);
	fx_close(fx, &f);
}

/* ---- ends of the mount and of the session ---- */

static void test_unmount(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct file f = fx_opened(fx, TOP "stdout", O_RDONLY),
		    g = fx_opened(fx, TOP "exit_code", O_RDONLY),
		    e = fx_opened(fx, "events", O_RDONLY);
	struct req *r1 = fx_read(fx, &f, 10, 0), *r2 = fx_read(fx, &g, 10, 0), *r3;

	while ((r3 = fx_read(fx, &e, 100000, 0))->kind == ANSWER_BUF)
		e.offset += r3->size;
	assert_waits(r3);
	fake_output(s, VM_STDERR, "e");
	fx_stop(fx);
	assert_int_equal(req_waiting(), 0);
	assert_bytes(r1, "");
	assert_bytes(r2, "137\n");
	assert_int_equal(fx_demo(fx)->state, SESSION_CLOSED);
}

static void test_rmdir_wakes_readers(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct file f = fx_opened(fx, TOP "stdout", O_RDONLY),
		    g = fx_opened(fx, TOP "exit_code", O_RDONLY);
	struct req *r1, *r2 = fx_read(fx, &g, 10, 0);

	fake_output(s, VM_STDOUT, "y");
	f.offset = 1;
	r1 = fx_read(fx, &f, 10, 0);
	assert_waits(r1);
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	assert_bytes(r1, "");
	assert_bytes(r2, "137\n");
	f.offset = 0;
	assert_bytes(fx_read(fx, &f, 10, 0), "y"); /* what is open stays readable */
	fake_settle();
	fx_close(fx, &f);
	fx_close(fx, &g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_before_the_first_run),
		fx_test(test_follow_output),
		fx_test(test_below_runs_nothing_waits_but_wait),
		fx_test(test_interrupt_and_nonblock),
		fx_test(test_open_is_bound_to_its_run),
		fx_test(test_open_input),
		fx_test(test_input_that_stays),
		fx_test(test_session_removed_while_input_pends),
		fx_test(test_poll),
		fx_test(test_unmount),
		fx_test(test_rmdir_wakes_readers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
