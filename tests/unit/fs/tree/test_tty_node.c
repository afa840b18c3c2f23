/* SPDX-License-Identifier: Apache-2.0 */
/* `tty` of a job that takes no more input: who opens it for both ways is shown what there was, and an end. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <poll.h>

#include "fs/session/job.h"
#include "tests/unit/fixture/fixture.h"

#define TOP "python/demo/"
#define JOB TOP "jobs/a/"

/* A job with a terminal, to be started by `start` or, without @argv, by code. */
static void make(struct fixture *fx, const char *config)
{
	assert_int_equal(fx_mkdir(fx, TOP "jobs/a"), 0);
	assert_int_equal(fx_put(fx, JOB "config", config), 0);
}

static struct fake_job *start(struct fixture *fx)
{
	make(fx, "tty = yes\nargv = sh\n");
	assert_int_equal(fx_put(fx, JOB "ctl", "start"), 0);
	fake_state(fake_sandbox(), SANDBOX_READY);
	return fake_job(fake_sandbox(), 0);
}

/* What its user is shown, up to the end. */
static void expect_shown(struct fixture *fx, const struct file *user, const char *text)
{
	assert_int_equal(fx_poll(fx, user, NULL)->number & POLLIN, POLLIN);
	if (*text)
		assert_bytes(fx_read(fx, user, 100, 0), text);
	assert_bytes(fx_read(fx, user, 100, 0), "");
}

static void test_of_one_that_has_ended(void **state)
{
	struct fixture *fx = *state;
	struct fake_job *j = start(fx);
	struct file user;

	fake_job_output(fake_sandbox(), j, VM_STDOUT, "$ exit");
	fake_job_exit(fake_sandbox(), j, VM_DONE, 0);
	user = fx_opened(fx, JOB "tty", O_RDWR);
	expect_shown(fx, &user, "$ exit");
	assert_int_equal(fx_write(fx, &user, "x"), -EPIPE);
	fx_expect_error(fx, TOP "jobs/a", "not-running");
	fx_close(fx, &user);
}

/* It was never started, but nobody will be told more of it. */
static void test_of_one_that_was_refused(void **state)
{
	struct fixture *fx = *state;
	struct file user, late, code;
	struct pollwait *pw = pollwait_new();
	struct req *req;

	make(fx, "tty = yes\n");
	user = fx_opened(fx, JOB "tty", O_RDWR);
	code = fx_opened(fx, JOB "in", O_WRONLY | O_TRUNC);
	assert_int_equal(fx_write(fx, &code, "sh\n"), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "close"), 0);
	req = fx_read(fx, &user, 100, 0);
	assert_waits(req);
	assert_int_equal(fx_poll(fx, &user, pw)->number & POLLIN, 0);
	fx_close(fx, &code);
	fx_expect(fx, JOB "state", "refused\n");
	assert_bytes(req, "");
	assert_true(pw->notified);
	expect_shown(fx, &user, "");
	late = fx_opened(fx, JOB "tty", O_RDWR);
	expect_shown(fx, &late, "");
	fx_close(fx, &late);
	fx_close(fx, &user);
}

/* It goes on, but reads no more: others may look, and none of them is a writer. */
static void test_of_one_that_is_deaf(void **state)
{
	struct fixture *fx = *state;
	struct fake_job *j = start(fx);
	struct file user;
	struct req *req;

	fake_job_output(fake_sandbox(), j, VM_STDOUT, "busy");
	fake_deaf(fake_sandbox(), j->id);
	user = fx_opened(fx, JOB "tty", O_RDWR);
	assert_int_equal(fx_poll(fx, &user, NULL)->number & POLLIN, POLLIN);
	assert_bytes(fx_read(fx, &user, 100, 0), "busy");
	req = fx_read(fx, &user, 100, 0);
	assert_waits(req);
	assert_int_equal(fx_write(fx, &user, "x"), -EPIPE);
	fake_job_output(fake_sandbox(), j, VM_STDOUT, "more");
	assert_bytes(req, "more");
	fx_close(fx, &user);
	fake_job_exit(fake_sandbox(), j, VM_DONE, 0);
}

static void test_of_one_that_is_removed(void **state)
{
	struct fixture *fx = *state;
	struct file user;
	struct req *req;

	make(fx, "tty = yes\nargv = sh\n");
	user = fx_opened(fx, JOB "tty", O_RDWR);
	req = fx_read(fx, &user, 100, 0);
	assert_waits(req);
	assert_int_equal(fx_rmdir(fx, TOP "jobs/a"), 0);
	assert_error(req, -ESTALE);
	assert_int_equal(fx_poll(fx, &user, NULL)->number & POLLIN, POLLIN);
	assert_error(fx_read(fx, &user, 100, 0), -ESTALE);
	fx_close(fx, &user);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_of_one_that_has_ended),
		fx_test(test_of_one_that_was_refused),
		fx_test(test_of_one_that_is_deaf),
		fx_test(test_of_one_that_is_removed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
