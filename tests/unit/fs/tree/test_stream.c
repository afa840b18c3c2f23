/* SPDX-License-Identifier: Apache-2.0 */
/* Reads that wait: for output, for the end of a run, for a run to begin. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <poll.h>

#include "tests/unit/fixture/fixture.h"

#define TOP "python/demo/"

static struct session *demo(struct bed *b)
{
	return session_find(b->fs, 0, "demo");
}

static void test_before_the_first_run(void **state)
{
	struct bed *b = *state;

	bed_expect(b, TOP "stdout", "");
	bed_expect(b, TOP "output", "");
	bed_expect(b, TOP "summary", "no run yet\n");
	assert_false(bed_exists(b, TOP "exit_code"));
	assert_false(bed_exists(b, TOP "runs/latest"));
	bed_expect(b, TOP "state", "new\n");
	assert_int_equal(fake_count(), 0);
}

static void test_follow_output(void **state)
{
	struct bed *b = *state;
	struct sandbox *s = bed_run(b, "x");
	struct file out = bed_opened(b, TOP "stdout", O_RDONLY),
		    both = bed_opened(b, TOP "output", O_RDONLY),
		    code = bed_opened(b, TOP "exit_code", O_RDONLY);
	struct req *r1 = bed_read(b, &out, 100, 0), *r2 = bed_read(b, &both, 100, 0),
		   *r3 = bed_read(b, &code, 100, 0);

	assert_int_equal(req_waiting(), 3);
	assert_true(bed_size(b, TOP "stdout") >
		    2 << 20); /* while it is open: more than there can be */
	assert_true(bed_size(b, TOP "exit_code") > 100);
	assert_int_equal(bed_size(b, TOP "stderr"), 0);
	fake_output(s, VM_STDOUT, "one\n");
	assert_bytes(r1, "one\n");
	assert_bytes(r2, "one\n");
	assert_waits(r3);
	assert_true(bed_size(b, TOP "stdout") > 2 << 20); /* not a growing size */
	assert_error(bed_read(b, &out, 100, BED_CACHED), -EIO);
	assert_error(bed_read(b, &code, 100, BED_CACHED), -EIO);
	assert_int_equal(bed_size(b, TOP "runs/1/stdout"), 4);
	out.offset = both.offset = 4;
	r1 = bed_read(b, &out, 100, 0);
	r2 = bed_read(b, &both, 100, 0);
	fake_output(s, VM_STDERR, "two\n");
	assert_waits(r1);
	assert_bytes(r2, "two\n");
	both.offset = 8;
	r2 = bed_read(b, &both, 100, 0);
	fake_exit(s, VM_DONE, 3);
	assert_bytes(r1, "");
	assert_bytes(r2, "");
	assert_bytes(r3, "3\n");
	assert_int_equal(bed_size(b, TOP "stdout"), 4);
	assert_int_equal(bed_size(b, TOP "output"), 8);
	assert_int_equal(bed_size(b, TOP "exit_code"), 2);
	bed_expect(b, TOP "output", "one\ntwo\n");
	code.offset = 1;
	assert_bytes(bed_read(b, &code, 1, 0), "\n");
	code.offset = 9;
	assert_bytes(bed_read(b, &code, 1, 0), "");
	bed_close(b, &out);
	bed_close(b, &both);
	bed_close(b, &code);
}

static void test_below_runs_nothing_waits_but_wait(void **state)
{
	struct bed *b = *state;
	struct sandbox *s = bed_run(b, "x");
	struct file f;
	struct req *r;

	fake_output(s, VM_STDOUT, "so far");
	bed_expect(b, TOP "runs/1/stdout", "so far");
	bed_expect(b, TOP "runs/1/stderr", "");
	bed_expect(b, TOP "runs/1/state", "running\n");
	assert_false(bed_exists(b, TOP "runs/1/exit_code"));
	f = bed_opened(b, TOP "runs/1/wait", O_RDONLY);
	r = bed_read(b, &f, 10, 0);
	assert_waits(r);
	assert_int_equal(bed_size(b, TOP "runs/1/wait"), 4096);
	fake_exit(s, VM_DONE, 200);
	assert_bytes(r, "200\n");
	bed_expect(b, TOP "runs/1/exit_code", "200\n");
	assert_int_equal(bed_size(b, TOP "runs/1/wait"), 4);
	assert_int_equal(bed_size(b, TOP "runs/1/exit_code"), 4);
	bed_close(b, &f);
}

static void test_interrupt_and_nonblock(void **state)
{
	struct bed *b = *state;
	struct sandbox *s = bed_run(b, "x");
	struct file f = bed_opened(b, TOP "stdout", O_RDONLY),
		    g = bed_opened(b, TOP "exit_code", O_RDONLY);
	struct req *first = bed_read(b, &f, 10, 0), *second = bed_read(b, &f, 10, 0), *early;

	assert_error(bed_read(b, &f, 10, O_NONBLOCK), -EAGAIN);
	assert_error(bed_read(b, &g, 10, O_NONBLOCK), -EAGAIN);
	req_interrupt(first);
	assert_error(first, -EINTR);
	assert_waits(second);
	fake_output(s, VM_STDOUT, "y");
	assert_bytes(second, "y");
	assert_bytes(bed_read(b, &f, 10, O_NONBLOCK), "y");
	f.offset = 1;
	early = bed_read(b, &f, 10, 0);
	fake_output(s, VM_STDERR, "tries it again in vain");
	assert_waits(early);
	req_interrupt(early);
	assert_error(early, -EINTR);
	bed_close(b, &f);
	bed_close(b, &g);
}

static void test_open_is_bound_to_its_run(void **state)
{
	struct bed *b = *state;
	struct sandbox *s = bed_run(b, "first");
	struct file old = bed_opened(b, TOP "stdout", O_RDONLY), young;
	struct req *r;

	bed_put(b, TOP "in", "second");
	young = bed_opened(b, TOP "stdout", O_RDONLY);
	r = bed_read(b, &young, 10, 0);
	fake_output(s, VM_STDOUT, "1");
	fake_exit(s, VM_DONE, 0);
	assert_waits(r);
	assert_string_equal(s->code, "second");
	assert_bytes(bed_read(b, &old, 10, 0), "1");
	fake_output(s, VM_STDOUT, "2");
	assert_bytes(r, "2");
	old.offset = 1;
	assert_bytes(bed_read(b, &old, 10, 0), ""); /* its run has ended */
	assert_int_equal(bed_rmdir(b, TOP "runs/1"), 0);
	old.offset = 0;
	assert_bytes(bed_read(b, &old, 10, 0), "1"); /* also when it is history */
	bed_close(b, &old);
	bed_close(b, &young);
}

/* ---- the moment between FLUSH and RELEASE ---- */

/* Code in an open `in`: what is read next is what becomes of it, and not the run before. */
static void test_open_input(void **state)
{
	struct bed *b = *state;
	struct file in, out;
	struct req *r;
	struct sandbox *s = bed_run(b, "old");

	fake_output(s, VM_STDOUT, "old");
	fake_exit(s, VM_DONE, 0);
	in = bed_opened(b, TOP "in", O_WRONLY | O_TRUNC);
	bed_expect(b, TOP "stdout", "old"); /* nothing is in it */
	bed_write(b, &in, "new");
	assert_int_equal(bed_size(b, TOP "stdout"), 0);
	assert_int_equal(bed_size(b, TOP "exit_code"), 0);
	out = bed_opened(b, TOP "stdout", O_RDONLY);
	assert_error(bed_read(b, &out, 10, O_NONBLOCK), -EAGAIN);
	assert_error(bed_read(b, &out, 10, BED_CACHED), -EIO);
	r = bed_read(b, &out, 10, 0);
	bed_flush(b, &in); /* but a child holds it open */
	clock_advance(5000);
	assert_waits(r);
	bed_expect(b, TOP "runs/1/stdout", "old");
	bed_release(b, &in);
	assert_waits(r);
	fake_output(s, VM_STDOUT, "new");
	assert_bytes(r, "new");
	bed_close(b, &out);
}

/* Who keeps it open for ever holds readers up no longer than a run would. */
static void test_input_that_stays(void **state)
{
	struct bed *b = *state;
	struct file in = bed_opened(b, TOP "in", O_WRONLY | O_TRUNC), out, code;
	struct req *r, *q;

	bed_write(b, &in, "x");
	bed_flush(b, &in);
	assert_true(bed_exists(b, TOP "exit_code"));
	out = bed_opened(b, TOP "stdout", O_RDONLY);
	code = bed_opened(b, TOP "exit_code", O_RDONLY);
	r = bed_read(b, &out, 10, 0);
	clock_advance(10000);
	q = bed_read(b, &code, 10, 0);
	clock_advance(19999);
	assert_waits(r);
	clock_advance(1);
	assert_error(r, -ETIMEDOUT);
	bed_expect_error(b, "python/demo", "in-open");
	assert_waits(q);
	req_interrupt(q);
	assert_error(q, -EINTR);
	r = bed_read(b, &out, 10, 0); /* again */
	assert_waits(r);
	bed_ftruncate(b, &in, 0); /* nothing is left that could run */
	bed_close(b, &in);
	assert_bytes(r, "");
	bed_close(b, &code);
	bed_close(b, &out);
}

static void test_session_removed_while_input_pends(void **state)
{
	struct bed *b = *state;
	struct file in = bed_opened(b, TOP "in", O_WRONLY | O_TRUNC),
		    out = bed_opened(b, TOP "stdout", O_RDONLY), late;
	struct req *r;

	bed_write(b, &in, "x");
	bed_flush(b, &in);
	late = bed_opened(b, TOP "stdout", O_RDONLY);
	r = bed_read(b, &late, 10, 0);
	assert_waits(r);
	bed_rmdir(b, "python/demo");
	assert_error(r, -ESTALE);
	assert_error(bed_read(b, &late, 10, 0), -ESTALE); /* must not wait for what never comes */
	assert_bytes(bed_read(b, &out, 10, 0), "");
	bed_close(b, &late);
	bed_close(b, &out);
	bed_close(b, &in);
}

/* ---- poll(2) ---- */

static void test_poll(void **state)
{
	struct bed *b = *state;
	struct sandbox *s = bed_run(b, "x");
	struct file f = bed_opened(b, TOP "stdout", O_RDONLY),
		    code = bed_opened(b, TOP "exit_code", O_RDONLY);
	struct pollwait *p1 = pollwait_new(), *p2 = pollwait_new(), *p3 = pollwait_new();

	assert_int_equal(bed_poll(b, &f, p1)->number, 0);
	assert_int_equal(bed_poll(b, &f, p2)->number, 0); /* in place of p1 */
	assert_true(p1->freed && !p1->notified);
	assert_int_equal(bed_poll(b, &code, p3)->number, 0);
	fake_output(s, VM_STDOUT, "y");
	assert_true(p2->notified && p2->freed);
	assert_true(p3->notified && p3->freed);
	assert_int_equal(bed_poll(b, &f, NULL)->number, POLLIN | POLLRDNORM);
	assert_int_equal(bed_poll(b, &code, NULL)->number, 0);
	fake_output(s, VM_STDOUT, "z"); /* one shot: nobody is told twice */
	assert_bytes(bed_read(b, &f, 10, 0), "yz");
	assert_int_equal(bed_poll(b, &f, NULL)->number, 0); /* all read */
	p1 = pollwait_new();
	bed_poll(b, &f, p1);
	fake_exit(s, VM_DONE, 0);
	assert_true(p1->notified);
	assert_int_equal(bed_poll(b, &f, NULL)->number, POLLIN | POLLRDNORM);
	assert_int_equal(bed_poll(b, &code, NULL)->number, POLLIN | POLLRDNORM);
	p1 = pollwait_new();
	bed_poll(b, &f, p1);
	bed_close(b, &f); /* gives it back */
	assert_true(p1->freed);
	bed_close(b, &code);
	f = bed_opened(b, TOP "state", O_RDONLY); /* never waits */
	assert_true(bed_poll(b, &f, pollwait_new())->number & POLLIN);
	bed_close(b, &f);
}

/* ---- ends of the mount and of the session ---- */

static void test_unmount(void **state)
{
	struct bed *b = *state;
	struct sandbox *s = bed_run(b, "x");
	struct file f = bed_opened(b, TOP "stdout", O_RDONLY),
		    g = bed_opened(b, TOP "exit_code", O_RDONLY),
		    e = bed_opened(b, "events", O_RDONLY);
	struct req *r1 = bed_read(b, &f, 10, 0), *r2 = bed_read(b, &g, 10, 0), *r3;

	while ((r3 = bed_read(b, &e, 100000, 0))->kind == ANSWER_BUF)
		e.offset += r3->size;
	assert_waits(r3);
	fake_output(s, VM_STDERR, "e");
	bed_stop(b);
	assert_int_equal(req_waiting(), 0);
	assert_bytes(r1, "");
	assert_bytes(r2, "137\n");
	assert_int_equal(demo(b)->state, SESSION_CLOSED);
}

static void test_rmdir_wakes_readers(void **state)
{
	struct bed *b = *state;
	struct sandbox *s = bed_run(b, "x");
	struct file f = bed_opened(b, TOP "stdout", O_RDONLY),
		    g = bed_opened(b, TOP "exit_code", O_RDONLY);
	struct req *r1, *r2 = bed_read(b, &g, 10, 0);

	fake_output(s, VM_STDOUT, "y");
	f.offset = 1;
	r1 = bed_read(b, &f, 10, 0);
	assert_waits(r1);
	assert_int_equal(bed_rmdir(b, "python/demo"), 0);
	assert_bytes(r1, "");
	assert_bytes(r2, "137\n");
	f.offset = 0;
	assert_bytes(bed_read(b, &f, 10, 0), "y"); /* what is open stays readable */
	fake_settle();
	bed_close(b, &f);
	bed_close(b, &g);
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, bed_up, bed_down)
	const struct CMUnitTest tests[] = {
		test(test_before_the_first_run),
		test(test_follow_output),
		test(test_below_runs_nothing_waits_but_wait),
		test(test_interrupt_and_nonblock),
		test(test_open_is_bound_to_its_run),
		test(test_open_input),
		test(test_input_that_stays),
		test(test_session_removed_while_input_pends),
		test(test_poll),
		test(test_unmount),
		test(test_rmdir_wakes_readers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
