/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: programs beside a session's interpreter. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <poll.h>

#include "fs/session/job.h"
#include "fs/session/quota.h"
#include "tests/unit/fixture/fixture.h"

#define TOP  "python/demo/"
#define JOBS TOP "jobs/"

static void test_a_job(void **state)
{
	struct fixture *fx = *state;
	struct fake_job *j;
	struct file out, code;
	struct req *req;

	assert_int_equal(fx_mkdir(fx, JOBS "build"), 0);
	assert_int_equal(fake_count(), 0); /* nothing was started */
	assert_string_equal(fx_ls(fx, TOP "jobs"), "build ");
	assert_string_equal(fx_ls(fx, JOBS "build"), "in stdin stdout stderr output summary state "
						     "status.json error config ctl ");
	fx_expect(fx, JOBS "build/state", "new\n");
	fx_expect(fx, JOBS "build/stdout", "");
	fx_expect(fx, JOBS "build/summary", "job build: not started\n");
	assert_int_equal(fx_put(fx, JOBS "build/in", "make test\n"), 0);
	fx_expect(fx, JOBS "build/state", "queued\n");
	fake_state(fake_sandbox(), SANDBOX_READY);
	j = fake_job(fake_sandbox(), 0);
	assert_non_null(j);
	assert_string_equal(j->code, "make test\n");
	assert_false(j->in.open);
	fx_expect(fx, JOBS "build/state", "running\n");
	fx_expect(fx, TOP "state", "idle\n");
	assert_int_equal(fx_put(fx, TOP "ctl", "pause"), -EBUSY);
	assert_non_null(strstr(fx_cat(fx, TOP "error"), "cause: 1 job of the session goes on\n"));

	out = fx_opened(fx, JOBS "build/stdout", O_RDONLY);
	code = fx_opened(fx, JOBS "build/exit_code", O_RDONLY);
	req = fx_read(fx, &out, 100, 0);
	assert_waits(req);
	fake_job_output(fake_sandbox(), j, VM_STDOUT, "built\n");
	assert_bytes(req, "built\n");
	fake_job_exit(fake_sandbox(), j, VM_DONE, 3);
	req = fx_read(fx, &code, 100, 0);
	assert_bytes(req, "3\n");
	fx_close(fx, &out);
	fx_close(fx, &code);
	fx_expect(fx, JOBS "build/state", "done\n");
	fx_expect(fx, JOBS "build/output", "built\n");
	assert_non_null(strstr(fx_cat(fx, JOBS "build/summary"), "job build: exit 3 in 41 ms"));
	assert_int_equal(fx_rmdir(fx, JOBS "build"), 0);
	assert_true(j->forgotten);
	assert_false(fx_exists(fx, JOBS "build"));
	fake_job_gone(fake_sandbox(), j);
}

/* Each job has what is its own, whatever others and the session do meanwhile. */
static void test_side_by_side(void **state)
{
	struct fixture *fx = *state;
	struct fake_job *a = fx_job(fx, "a"), *b = fx_job(fx, "b");
	struct sandbox *s = fx_run(fx, "print()");

	assert_ptr_not_equal(a, b);
	fake_output(s, VM_STDOUT, "session");
	fake_job_output(s, b, VM_STDOUT, "of b");
	fake_job_output(s, a, VM_STDERR, "of a");
	fake_job_exit(s, b, VM_DONE, 0);
	fake_exit(s, VM_DONE, 1);
	fake_job_exit(s, a, VM_TIMEOUT, 124);
	fx_expect(fx, TOP "stdout", "session");
	fx_expect(fx, TOP "exit_code", "1\n");
	fx_expect(fx, JOBS "a/stdout", "");
	fx_expect(fx, JOBS "a/output", "of a");
	fx_expect(fx, JOBS "a/exit_code", "124\n");
	fx_expect_error(fx, JOBS "a", "timeout");
	fx_expect(fx, JOBS "b/stdout", "of b");
	fx_expect(fx, JOBS "b/exit_code", "0\n");
	fx_expect(fx, TOP "error", "");
}

static void test_written_once(void **state)
{
	struct fixture *fx = *state;
	struct file first, second;
	struct fake_job *j;

	assert_int_equal(fx_mkdir(fx, JOBS "a"), 0);
	first = fx_opened(fx, JOBS "a/in", O_WRONLY | O_TRUNC);
	second = fx_opened(fx, JOBS "a/in", O_WRONLY | O_TRUNC);
	assert_int_equal(fx_write(fx, &first, "first"), 0);
	assert_int_equal(fx_write(fx, &second, "second"), 0);
	fx_close(fx, &second);
	assert_int_equal(fx_write(fx, &first, "more"), -EBUSY);
	fx_close(fx, &first);
	assert_int_equal(fx_put(fx, JOBS "a/in", "third"), -EBUSY);
	fx_expect_error(fx, JOBS "a", "busy");
	fx_expect(fx, JOBS "a/in", "second");
	fake_state(fake_sandbox(), SANDBOX_READY);
	j = fake_job(fake_sandbox(), 0);
	assert_string_equal(j->code, "second");
	assert_null(fake_job(fake_sandbox(), 1));
}

static void test_argv(void **state)
{
	struct fixture *fx = *state;
	struct fake_job *j;

	assert_int_equal(fx_mkdir(fx, JOBS "a"), 0);
	assert_int_equal(fx_put(fx, JOBS "a/ctl", "start"), -EINVAL);
	fx_expect_error(fx, JOBS "a", "invalid");
	assert_int_equal(fx_put(fx, JOBS "a/config", "argv = true\n"), 0);
	assert_int_equal(fx_put(fx, JOBS "a/in", "code"), -EINVAL);
	assert_int_equal(fx_put(fx, JOBS "a/ctl", "start"), 0);
	fake_state(fake_sandbox(), SANDBOX_READY);
	j = fake_job(fake_sandbox(), 0);
	assert_string_equal(j->argv, "true ");
	assert_string_equal(j->code, "");
	assert_int_equal(fx_put(fx, JOBS "a/ctl", "start"), -EBUSY);
	assert_int_equal(fx_put(fx, JOBS "a/config", "argv = false\n"), -EBUSY);
	assert_int_equal(fx_put(fx, JOBS "a/ctl", "signal HUP\ninterrupt\nsignal 15"), 0);
	assert_int_equal(j->nsignals, 3);
	assert_int_equal(j->sig, SANDBOX_SIGNAL + 15);
	fake_job_exit(fake_sandbox(), j, VM_DONE, 143);
	assert_int_equal(fx_put(fx, JOBS "a/ctl", "kill"), -ESRCH);
	fx_expect_error(fx, JOBS "a", "not-running");
}

static void test_removed_while_it_runs(void **state)
{
	struct fixture *fx = *state;
	struct fake_job *j = fx_job(fx, "a");
	struct file out = fx_opened(fx, JOBS "a/stdout", O_RDONLY);
	struct req *req;

	fake_job_output(fake_sandbox(), j, VM_STDOUT, "so far");
	out.offset = 6;
	req = fx_read(fx, &out, 100, 0);
	assert_waits(req);
	assert_int_equal(fx_rmdir(fx, JOBS "a"), 0);
	assert_true(j->forgotten);
	assert_bytes(req, ""); /* the end */
	out.offset = 0;
	assert_bytes(fx_read(fx, &out, 100, 0), "so far");
	/* One of the same name is another one. */
	fx_job(fx, "a");
	assert_bytes(fx_read(fx, &out, 100, 0), "so far");
	fx_close(fx, &out);
	fake_job_gone(fake_sandbox(), j);
}

static void test_sandbox_dies(void **state)
{
	struct fixture *fx = *state;
	struct file code;

	fx_job(fx, "a");
	code = fx_opened(fx, JOBS "a/exit_code", O_RDONLY);
	fake_die(fake_sandbox(), PROBLEM_CLOSED);
	fx_expect(fx, JOBS "a/state", "lost\n");
	assert_error(fx_read(fx, &code, 100, 0), -EIO);
	fx_close(fx, &code);
	assert_int_equal(fx_mkdir(fx, JOBS "b"), 0);
	assert_int_equal(fx_put(fx, JOBS "b/in", "x"), -ESTALE);
	assert_int_equal(fx_put(fx, JOBS "a/ctl", "kill"), -ESRCH);
	assert_int_equal(fx_rmdir(fx, JOBS "a"), 0);
}

/* What an ended job has left goes with the sandbox. */
static void test_sandbox_dies_with_what_is_left(void **state)
{
	struct fixture *fx = *state;
	struct fake_job *j = fx_job(fx, "a");

	fake_job_exit(fake_sandbox(), j, VM_DONE, 0);
	assert_non_null(strstr(fx_cat(fx, JOBS "a/status.json"), "\"processes_left\": true"));
	fake_die(fake_sandbox(), PROBLEM_CLOSED);
	assert_non_null(strstr(fx_cat(fx, JOBS "a/status.json"), "\"processes_left\": false"));
	assert_int_equal(fx_rmdir(fx, JOBS "a"), 0);
}

static void test_close_and_reset(void **state)
{
	struct fixture *fx = *state;

	fx_job(fx, "a");
	assert_int_equal(fx_mkdir(fx, JOBS "b"), 0);
	fake_faults.job_err = -EAGAIN;
	assert_int_equal(fx_put(fx, JOBS "b/in", "x"), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "close"), 0);
	fx_expect(fx, JOBS "a/state", "killed\n");
	fx_expect(fx, JOBS "a/exit_code", "137\n");
	fx_expect(fx, JOBS "b/state", "refused\n");
	fx_expect_error(fx, JOBS "b", "closed");
}

/* No processor, then no place, then it can't be sent. */
static void test_waits_for_the_sandbox(void **state)
{
	struct fixture *fx = *state;
	struct fake_job *a = fx_job(fx, "a");
	struct sandbox *s = fake_sandbox();

	fake_faults.job_err = -EAGAIN;
	assert_int_equal(fx_mkdir(fx, JOBS "b"), 0);
	assert_int_equal(fx_put(fx, JOBS "b/in", "x"), 0);
	fx_expect(fx, JOBS "b/state", "queued\n");
	fake_faults.job_err = -EMFILE;
	fake_state(s, SANDBOX_READY);
	fx_expect_error(fx, JOBS "b", "too-many");
	fake_faults.job_err = 0;
	fake_job_exit(s, a, VM_DONE, 0);
	fx_expect(fx, JOBS "b/state", "running\n");
	fx_expect(fx, JOBS "b/error", "");
	fake_faults.job_err = -ENOMEM;
	assert_int_equal(fx_mkdir(fx, JOBS "c"), 0);
	assert_int_equal(fx_put(fx, JOBS "c/in", "x"), 0);
	fx_expect(fx, JOBS "c/state", "refused\n");
	fake_faults.job_err = 0;
	assert_int_equal(fx_mkdir(fx, JOBS "d"), 0);
	assert_int_equal(fx_put(fx, JOBS "d/in", "x"), 0);
	fx_expect(fx, JOBS "d/state", "running\n");
}

static void test_names_and_limits(void **state)
{
	struct fixture *fx = *state;
	char path[64];

	assert_int_equal(fx_mkdir(fx, JOBS ".x"), -EINVAL);
	assert_int_equal(fx_mkdir(fx, JOBS "-x"), -EINVAL);
	assert_int_equal(fx_mkdir(fx, JOBS "x"), 0);
	assert_int_equal(fx_mkdir(fx, JOBS "x"), -EEXIST);
	assert_int_equal(fx_mkdir(fx, JOBS "x/y"), -EPERM);
	for (unsigned i = 1; i < JOBS_MORE + fx->conf.history_runs; i++) {
		snprintf(path, sizeof(path), JOBS "n%u", i);
		if (i < JOBS_MORE)
			assert_int_equal(fx_mkdir(fx, path), 0);
	}
	assert_int_equal(fx_mkdir(fx, JOBS "more"), -EDQUOT);
	fx_expect_error(fx, "python/demo", "too-many");
	for (unsigned i = 1; i <= JOBS_GOING_MAX; i++) {
		snprintf(path, sizeof(path), JOBS "n%u/in", i);
		assert_int_equal(fx_put(fx, path, "x"), 0);
	}
	assert_int_equal(fx_put(fx, JOBS "x/in", "x"), -EBUSY);
	fx_expect_error(fx, JOBS "x", "queue-full");
	assert_int_equal(fx_put(fx, TOP "config", "fresh = yes\n"), 0);
	assert_int_equal(fx_rmdir(fx, JOBS "x"), 0);
	assert_int_equal(fx_mkdir(fx, JOBS "x"), -EOPNOTSUPP);
}

/* Those that ended first go first; what goes on, or has left processes behind, stays. */
static void test_history(void **state)
{
	struct fixture *fx = *state;
	struct fake_job *j, *left = fx_job(fx, "left");

	fx->conf.history_runs = 2;
	fake_job_exit(fake_sandbox(), left, VM_DONE, 0);
	for (int i = 0; i < 4; i++) {
		char name[8] = {(char)('a' + i)};

		j = fx_job(fx, name);
		fake_job_exit(fake_sandbox(), j, VM_DONE, 0);
		fake_job_gone(fake_sandbox(), j);
		clock_advance(1);
	}
	assert_int_equal(fx_mkdir(fx, JOBS "new"), 0);
	assert_string_equal(fx_ls(fx, TOP "jobs"), "left c d new ");
}

/* So do those with more output than is to be kept; but the last never. */
static void test_history_of_bytes(void **state)
{
	struct fixture *fx = *state;
	static char text[601];
	struct fake_job *j;

	memset(text, 'x', sizeof(text) - 1);
	fx->conf.history_bytes = 1000;
	for (int i = 0; i < 3; i++) {
		char name[8] = {(char)('a' + i)};

		j = fx_job(fx, name);
		fake_job_output(fake_sandbox(), j, VM_STDOUT, text);
		fake_job_exit(fake_sandbox(), j, VM_DONE, 0);
		fake_job_gone(fake_sandbox(), j);
		clock_advance(1);
		if (i == 1)
			assert_string_equal(fx_ls(fx, TOP "jobs"), "b ");
	}
	assert_string_equal(fx_ls(fx, TOP "jobs"), "c ");
	assert_int_equal(fx_size(fx, JOBS "c/stdout"), sizeof(text) - 1);
}

static void test_keeps_the_session(void **state)
{
	struct fixture *fx = *state;
	struct fake_job *j;
	struct session *s = fx_demo(fx);

	assert_int_equal(fx_put(fx, TOP "config", "idle = close\nidle_timeout_s = 10\n"), 0);
	j = fx_job(fx, "a");
	assert_int_equal(session_tick(s, uv_now(&fx->loop) + 1000000), UINT64_MAX);
	fx_expect(fx, TOP "state", "idle\n");
	fake_job_exit(fake_sandbox(), j, VM_DONE, 0);
	session_tick(s, uv_now(&fx->loop) + 1000000);
	fx_expect(fx, TOP "state", "closed\n");
	fx_expect(fx, JOBS "a/exit_code", "0\n");
}

static void test_rm_r_of_the_session(void **state)
{
	struct fixture *fx = *state;
	struct file out;

	fx_job(fx, "a");
	out = fx_opened(fx, JOBS "a/stdout", O_RDONLY);
	assert_int_equal(fx_unlink(fx, JOBS "a/in"), 0);
	assert_int_equal(fx_unlink(fx, JOBS "a/stdout"), 0);
	assert_int_equal(fx_rmdir(fx, JOBS "a"), 0);
	assert_int_equal(fx_rmdir(fx, TOP "jobs"), 0);
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	assert_bytes(fx_read(fx, &out, 10, 0), "");
	fx_close(fx, &out);
}

/* ---- terminals ---- */

static void test_tty(void **state)
{
	struct fixture *fx = *state;
	struct file user, other, stdin_file;
	struct fake_job *j;
	struct req *req;

	assert_int_equal(fx_mkdir(fx, JOBS "a"), 0);
	assert_false(fx_exists(fx, JOBS "a/tty"));
	assert_int_equal(fx_put(fx, JOBS "a/config", "tty = yes\nrows = 30\nargv = sh\n"), 0);
	user = fx_opened(fx, JOBS "a/tty", O_RDWR);
	other = fx_opened(fx, JOBS "a/tty", O_RDONLY);
	assert_bytes(fx_read(fx, &other, 10, 0),
		     ""); /* who only looks on does not wait for the start */
	req = fx_read(fx, &user, 100, 0);
	assert_waits(req);
	assert_int_equal(fx_write(fx, &user, "l"), 0);
	user.offset = 0;
	assert_int_equal(fx_write(fx, &user, "s\r"), 0);
	user.offset = 0;
	assert_int_equal(fx_put(fx, JOBS "a/ctl", "start"), 0);
	fake_state(fake_sandbox(), SANDBOX_READY);
	j = fake_job(fake_sandbox(), 0);
	assert_true(j->tty && j->in.open && !j->in.eof);
	assert_int_equal(j->rows, 30);
	assert_int_equal(j->cols, 80);
	assert_memory_equal(j->in.got.data, "ls\r", 3);
	fake_job_output(fake_sandbox(), j, VM_STDOUT, "$ ls");
	assert_bytes(req, "$ ls");
	req = fx_read(fx, &user, 100, 0);
	assert_waits(req);
	assert_int_equal(fx_write(fx, &user, "x"), 0); /* while it waits */
	assert_int_equal(j->in.got.len, 4);
	fake_job_output(fake_sandbox(), j, VM_STDOUT, "more");
	assert_bytes(req, "more");
	assert_bytes(fx_read(fx, &other, 10, 0), "$ lsmore");
	stdin_file = fx_opened(fx, JOBS "a/stdin", O_WRONLY);
	fx_close(fx, &stdin_file);
	fx_close(fx, &user);
	assert_false(j->in.eof); /* a terminal stays */
	assert_int_equal(fx_put(fx, JOBS "a/ctl", "eof"), 0);
	assert_int_equal(j->in.got.data[4], 4);
	assert_int_equal(fx_put(fx, JOBS "a/config", "tty = no\n"), -EBUSY);
	assert_int_equal(fx_add(fx, JOBS "a/config", "rows = 40\ncols = 100\n"), 0);
	assert_int_equal(j->rows, 40);
	assert_int_equal(j->cols, 100);
	fake_job_exit(fake_sandbox(), j, VM_DONE, 0);
	fx_expect(fx, JOBS "a/stdout", "$ lsmore");
	fx_expect(fx, JOBS "a/stderr", "");
	fx_close(fx, &other);
}

/* ---- named runs ---- */

static void test_named_runs(void **state)
{
	struct fixture *fx = *state;
	struct file out, code;
	struct sandbox *s;
	struct req *req;

	assert_int_equal(fx_mkdir(fx, TOP "runs/7"), -EINVAL);
	assert_int_equal(fx_mkdir(fx, TOP "runs/latest"), -EEXIST);
	assert_int_equal(fx_mkdir(fx, TOP "runs/mine"), 0);
	assert_int_equal(fx_mkdir(fx, TOP "runs/his"), 0);
	assert_string_equal(fx_ls(fx, TOP "runs"), "mine his ");
	assert_string_equal(fx_ls(fx, TOP "jobs"), "");
	fx_expect(fx, TOP "runs/mine/summary", "run mine: not started\n");
	assert_int_equal(fx_put(fx, TOP "runs/mine/stdin", "for me"), 0);
	assert_int_equal(fx_put(fx, TOP "runs/his/in", "his()"), 0);
	assert_int_equal(fx_put(fx, TOP "runs/mine/in", "mine()"), 0);
	assert_int_equal(fx_put(fx, TOP "runs/mine/in", "again()"), -EBUSY);
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	assert_string_equal(s->code, "his()");
	assert_false(s->in.open);
	out = fx_opened(fx, TOP "runs/mine/stdout", O_RDONLY);
	code = fx_opened(fx, TOP "runs/his/exit_code", O_RDONLY);
	req = fx_read(fx, &out, 100, 0);
	assert_waits(req);
	fake_output(s, VM_STDOUT, "of him");
	fake_exit(s, VM_DONE, 1);
	assert_waits(req);
	assert_string_equal(s->code, "mine()");
	assert_memory_equal(s->in.got.data, "for me", 6);
	fake_output(s, VM_STDOUT, "of me");
	assert_bytes(req, "of me");
	assert_bytes(fx_read(fx, &code, 10, 0), "1\n");
	assert_int_equal(fx_put(fx, TOP "runs/mine/ctl", "signal TERM"), -EOPNOTSUPP);
	assert_int_equal(fx_put(fx, TOP "runs/his/ctl", "kill"), -ESRCH);
	assert_int_equal(fx_put(fx, TOP "runs/mine/ctl", "kill"), 0);
	assert_int_equal(s->signals[SANDBOX_KILL], 1);
	assert_int_equal(fx_rmdir(fx, TOP "runs/mine"), 0); /* it goes on */
	fx_expect(fx, TOP "runs/2/state", "running\n");
	fake_exit(s, VM_TIMEOUT, 124);
	out.offset = 5;
	assert_bytes(fx_read(fx, &out, 100, 0), "");
	fx_close(fx, &out);
	fx_close(fx, &code);
	fx_expect(fx, TOP "runs/his/output", "of him");
	fx_expect(fx, TOP "runs/1/output", "of him");
	assert_string_equal(fx_ls(fx, TOP "runs"), "latest 1 2 his ");
}

static void test_named_run_is_refused(void **state)
{
	struct fixture *fx = *state;

	fx_run(fx, "x");
	assert_int_equal(fx_mkdir(fx, TOP "runs/a"), 0);
	assert_int_equal(fx_put(fx, TOP "runs/a/config", "argv = x\n"), -EINVAL);
	assert_int_equal(fx_put(fx, TOP "runs/a/config", "tty = yes\n"), -EINVAL);
	fx_expect_error(fx, TOP "runs/a", "invalid");
	assert_int_equal(fx_put(fx, TOP "runs/a/config", "timeout_s = 7\n"), 0);
	assert_int_equal(fx_put(fx, TOP "runs/a/in", "y"), 0);
	fx_expect(fx, TOP "runs/a/state", "queued\n");
	assert_int_equal(fx_put(fx, TOP "runs/a/ctl", "kill"), 0);
	fx_expect(fx, TOP "runs/a/state", "refused\n");
	fx_expect_error(fx, TOP "runs/a", "killed");
	assert_int_equal(fx_mkdir(fx, TOP "runs/b"), 0);
	assert_int_equal(fx_put(fx, TOP "runs/b/in", "y"), 0);
	fake_die(fake_sandbox(), PROBLEM_CLOSED);
	fx_expect(fx, TOP "runs/b/state", "refused\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_a_job),
		fx_test(test_side_by_side),
		fx_test(test_written_once),
		fx_test(test_argv),
		fx_test(test_removed_while_it_runs),
		fx_test(test_sandbox_dies),
		fx_test(test_sandbox_dies_with_what_is_left),
		fx_test(test_close_and_reset),
		fx_test(test_waits_for_the_sandbox),
		fx_test(test_names_and_limits),
		fx_test(test_history),
		fx_test(test_history_of_bytes),
		fx_test(test_keeps_the_session),
		fx_test(test_rm_r_of_the_session),
		fx_test(test_tty),
		fx_test(test_named_runs),
		fx_test(test_named_run_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
