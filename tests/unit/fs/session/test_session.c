/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: states, how runs end, `ctl`, the queue, the history, limits. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <stdio.h>

#include "tests/unit/fixture/fixture.h"

#define TOP	      "python/demo/"
#define ctl(b, verbs) fx_put(b, TOP "ctl", verbs "\n")

static void test_summary(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct vm_result r = {.outcome = VM_DONE, .wall_us = 41000};

	fake_output(s, VM_STDOUT, "twelve bytes");
	fake_result(s, &r);
	fx_expect(fx, TOP "summary",
		  "run 1: exit 0 in 41 ms, 12 bytes on stdout, nothing on stderr\n");
	fx_run(fx, "x");
	fake_output(s, VM_STDERR, "e");
	r = (struct vm_result){
		.outcome = VM_TIMEOUT, .status = 124, .wall_us = 30000000, .dropped = {5, 0}};
	fake_result(s, &r);
	fx_expect(fx, TOP "summary",
		  "run 2: timeout, exit 124 after 30.0 s, nothing on stdout (truncated), "
		  "1 byte on stderr\n");
	assert_non_null(strstr(fx_cat(fx, TOP "runs/2/status.json"), "\"truncated\": true"));
}

/* What the problem names is what the run began with, whatever the settings say by now. */
static void test_timeout_in_words(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_put(fx, TOP "config", "timeout_s = 7\n");
	s = fx_run(fx, "x");
	assert_int_equal(s->timeout_ms, 7000);
	assert_int_equal(fx_add(fx, TOP "config", "timeout_s = 50\n"), 0);
	fake_exit(s, VM_TIMEOUT, 124);
	fx_expect_error(fx, "python/demo", "timeout");
	assert_non_null(strstr(fx_cat(fx, TOP "error"), "timeout_s = 7\n"));
	assert_non_null(strstr(fx_cat(fx, TOP "error"), "'timeout_s = 28' >> config"));
}

static void test_states(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_expect(fx, TOP "state", "new\n");
	fx_put(fx, TOP "in", "x");
	fx_expect(fx, TOP "state", "starting\n");
	s = fake_sandbox();
	assert_string_equal(s->name, "python-demo");
	assert_string_equal(s->language, "python");
	assert_int_equal(s->memory_mb, 192);
	fake_state(s, SANDBOX_STARTING);
	fx_expect(fx, TOP "state", "starting\n");
	fake_state(s, SANDBOX_READY);
	fx_expect(fx, TOP "state", "running\n");
	fake_exit(s, VM_DONE, 0);
	fx_expect(fx, TOP "state", "idle\n");
	assert_int_equal(ctl(fx, "close"), 0);
	fx_expect(fx, TOP "state", "closed\n");
	fake_settle();
	fx_expect(fx, TOP "exit_code", "0\n"); /* results stay */
	assert_int_equal(fx_put(fx, TOP "in", "y"), -ESTALE);
	fx_expect_error(fx, "python/demo", "closed");
	assert_int_equal(ctl(fx, "reset"), 0);
	fx_expect(fx, TOP "state", "new\n");
	assert_int_equal(fake_count(), 1); /* nothing starts by itself */
	assert_int_equal(fx_put(fx, TOP "in", "y"), 0);
	assert_int_equal(fake_count(), 2);
	fx_expect(fx, TOP "state", "starting\n");
}

/* ---- ctl ---- */

/* What is said to do brings a session that can be paused. */
static void test_pause_refused(void **state)
{
	struct fixture *fx = *state;

	assert_int_equal(fx_put(fx, TOP "ctl", "pause\n"), -EBUSY);
	fx_expect_error(fx, "python/demo", "busy");
	assert_non_null(strstr(fx_cat(fx, TOP "error"), "run something first"));
	fx_put(fx, TOP "in", "x");
	assert_int_equal(fx_put(fx, TOP "ctl", "pause\n"), -EBUSY);
	assert_non_null(strstr(fx_cat(fx, TOP "error"), "Wait until"));
	fake_die(fake_sandbox(), PROBLEM_NO_PLACE);
	fx_expect(fx, TOP "state", "failed\n");
	assert_int_equal(fx_put(fx, TOP "ctl", "pause\n"), -EBUSY);
	assert_non_null(strstr(fx_cat(fx, TOP "error"), "run again"));
	fx_put(fx, TOP "ctl", "close\n");
	assert_int_equal(fx_put(fx, TOP "ctl", "pause\n"), -EBUSY);
	assert_non_null(strstr(fx_cat(fx, TOP "error"), "echo reset > ctl"));
}

static void test_kill(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	assert_int_equal(ctl(fx, "kill"), -ESRCH);
	fx_put(fx, TOP "in", "one");
	fx_put(fx, TOP "in", "two");
	assert_int_equal(ctl(fx, "kill"), 0); /* of what waits, the first: it never ran */
	fx_expect(fx, TOP "runs/1/state", "refused\n");
	fx_expect(fx, TOP "runs/2/state", "queued\n");
	s = fx_ready(fx);
	assert_string_equal(s->code, "two");
	assert_int_equal(ctl(fx, "kill"), 0);
	assert_int_equal(s->signals[SANDBOX_KILL], 1);
	fx_expect(fx, TOP "state", "running\n"); /* until the sandbox says so */
	fake_exit(s, VM_KILLED, 137);
	fx_expect(fx, TOP "runs/2/state", "killed\n");
	assert_int_equal(ctl(fx, "kill\nreset"), -ESRCH);
	assert_int_equal(s->nresets, 0); /* the first that fails ends it */
	assert_int_equal(ctl(fx, "kil"), -EINVAL);
	fx_expect_error(fx, "python/demo", "unknown-verb");
}

static void test_reset(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	assert_int_equal(ctl(fx, "reset"), 0); /* new */
	fx_put(fx, TOP "in", "x");
	assert_int_equal(ctl(fx, "reset"), 0); /* starting: the run goes on */
	s = fx_ready(fx);
	assert_int_equal(ctl(fx, "reset"), 0); /* running: with the run its interpreter ends */
	assert_int_equal(s->signals[SANDBOX_KILL], 1);
	fake_exit(s, VM_KILLED, 137); /* which left the interpreter as it was */
	assert_int_equal(s->nresets, 1);
	assert_int_equal(ctl(fx, "reset"), 0); /* while the interpreter starts anew: once more */
	fake_state(s, SANDBOX_READY);
	assert_int_equal(s->nresets, 2);
	fx_put(fx, TOP "in", "after");
	fx_expect(fx, TOP "runs/2/state", "queued\n");
	fake_state(s, SANDBOX_READY);
	fx_expect(fx, TOP "runs/2/state", "running\n");
	assert_int_equal(fake_count(), 1);
}

static void test_close(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct file f = fx_opened(fx, TOP "exit_code", O_RDONLY);
	struct req *r = fx_read(fx, &f, 10, 0);

	fx_put(fx, TOP "in", "waits");
	fake_output(s, VM_STDOUT, "so far");
	assert_int_equal(ctl(fx, "close"), 0);
	assert_bytes(r, "137\n");
	fx_expect(fx, TOP "runs/1/state", "killed\n");
	fx_expect(fx, TOP "runs/1/stdout", "so far");
	fx_expect(fx, TOP "runs/2/state", "refused\n");
	assert_true(s->closing);
	assert_int_equal(ctl(fx, "close"), 0); /* again: nothing to do */
	assert_int_equal(ctl(fx, "reset"), 0);
	fx_put(fx, TOP "in", "next"); /* while the old sandbox still ends */
	fake_settle();
	fx_expect(fx, TOP "state", "starting\n");
	assert_ptr_not_equal(fake_sandbox(), s);
	fx_close(fx, &f);
}

static void test_idle_timeout(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_put(fx, TOP "config", "idle = close\nidle_timeout_s = 10\n");
	clock_advance(60000);
	fx_expect(fx, TOP "state", "new\n");
	s = fx_run(fx, "x");
	clock_advance(60000);
	fx_expect(fx, TOP "state", "running\n");
	fake_exit(s, VM_DONE, 0);
	clock_advance(9000);
	fx_run(fx, "y");
	clock_advance(2000);
	fake_exit(s, VM_DONE, 7);
	clock_advance(9999);
	fx_expect(fx, TOP "state", "idle\n");
	clock_advance(1);
	fx_expect(fx, TOP "state", "closed\n");
	fx_expect_error(fx, "python/demo", "idle-timeout");
	fx_expect(fx, TOP "exit_code", "7\n");
	assert_true(s->closing);
	assert_int_equal(fx_put(fx, TOP "in", "z"), -ESTALE);
	fx_expect_error(fx, "python/demo", "idle-timeout"); /* still says why */
}

/* Code that is refused says why it was, whatever went wrong last. */
static void test_refused_for_its_own_reason(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, TOP "in", O_WRONLY | O_TRUNC);

	assert_int_equal(fx_write(fx, &f, "x"), 0);
	assert_int_equal(ctl(fx, "close"), 0);
	assert_int_equal(ctl(fx, "interrupt"), -ESRCH);
	fx_expect_error(fx, "python/demo", "not-running");
	fx_close(fx, &f);
	fx_expect_error(fx, "python/demo", "closed");
	fx_expect(fx, TOP "runs/1/state", "refused\n");
	assert_int_equal(ctl(fx, "interrupt"), -ESRCH);
	assert_int_equal(fx_put(fx, TOP "in", "y"), -ESTALE);
	fx_expect_error(fx, "python/demo", "closed");
}

/* Each write of code is use; an open file is not. */
static void test_idle_timeout_while_code_is_written(void **state)
{
	struct fixture *fx = *state;
	struct file f;

	fx_put(fx, TOP "config", "idle = close\nidle_timeout_s = 5\n");
	fx_ready(fx);
	f = fx_opened(fx, TOP "in", O_WRONLY | O_TRUNC);
	for (int i = 0; i < 3; i++) {
		clock_advance(4000);
		assert_int_equal(fx_write(fx, &f, "x\n"), 0);
	}
	clock_advance(4999);
	fx_expect(fx, TOP "state", "idle\n");
	clock_advance(1);
	fx_expect(fx, TOP "state", "closed\n");
	fx_close(fx, &f);
	fx_expect(fx, TOP "runs/1/state", "refused\n");
}

/* A list of changes that was asked for before. */
static void test_list_of_a_removed_session(void **state)
{
	struct fixture *fx = *state;
	struct session *s = fx_demo(fx);
	struct file f;

	free((char *)s->settings.spec.work);
	s->settings.spec.work = strdup("/work");
	f = fx_opened(fx, TOP "files.changes", O_RDONLY);
	handle_get(&fx->fs->handles, f.fh)->asked = true;
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	assert_error(fx_read(fx, &f, 10, 0), -ESTALE);
	fx_close(fx, &f);
}

static void test_idle_timeout_off_and_live(void **state)
{
	struct fixture *fx = *state;

	fx_put(fx, TOP "config", "idle = close\nidle_timeout_s = 0\n");
	fx_ready(fx);
	clock_advance(100000000);
	fx_expect(fx, TOP "state", "idle\n");
	fx_put(fx, TOP "config", "idle = close\nidle_timeout_s = 5\n");
	clock_advance(4999);
	fx_expect(fx, TOP "state", "idle\n");
	clock_advance(1);
	fx_expect(fx, TOP "state", "closed\n");
}

static void test_reset_outlasts_idle_timeout(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_put(fx, TOP "config", "idle = close\nidle_timeout_s = 5\n");
	s = fx_ready(fx);
	assert_int_equal(ctl(fx, "reset"), 0);
	fx_put(fx, TOP "in", "x"); /* waits for the new interpreter */
	clock_advance(60000);
	fake_state(s, SANDBOX_READY);
	fx_expect(fx, TOP "runs/1/state", "running\n");
}

/* ---- queue, history, limits ---- */

static void test_queue(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "0");
	struct file f = fx_opened(fx, TOP "in", O_WRONLY | O_TRUNC);
	char code[16];

	for (unsigned i = 1; i <= SESSION_QUEUE_MAX; i++) {
		snprintf(code, sizeof(code), "%u", i);
		assert_int_equal(fx_put(fx, TOP "in", code), 0);
	}
	assert_int_equal(fx_put(fx, TOP "in", "too many"), -EBUSY);
	fx_expect_error(fx, "python/demo", "queue-full");
	assert_int_equal(fx_write(fx, &f, "too many"), -EBUSY);
	fx_close(fx, &f);
	for (unsigned i = 0; i <= SESSION_QUEUE_MAX; i++) {
		snprintf(code, sizeof(code), "%u", i);
		assert_string_equal(s->code, code); /* in order */
		assert_int_equal(s->run, i + 1);
		fake_exit(s, VM_DONE, 0);
	}
	assert_int_equal(s->run, 0);
	fx_expect(fx, TOP "state", "idle\n");
}

static void test_history_runs(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx->conf.history_runs = 3;
	for (int i = 0; i < 5; i++) {
		s = fx_run(fx, "x");
		fake_exit(s, VM_DONE, 0);
	}
	assert_string_equal(fx_ls(fx, TOP "runs"), "latest 3 4 5 ");
	assert_int_equal(fx_size(fx, TOP "runs/latest"), 1);
	assert_non_null(strstr(fx_cat(fx, TOP "status.json"), "\"removed\": 2"));
	/* Queued runs are not history. */
	for (int i = 0; i < 5; i++)
		fx_put(fx, TOP "in", "q");
	assert_int_equal(fx_demo(fx)->nruns, 5);
	assert_int_equal(fx_rmdir(fx, TOP "runs/99"), -ENOENT);
	assert_int_equal(fx_rmdir(fx, TOP "runs/06"), -ENOENT);
}

static void test_removed_run_lives_on_in_its_handle(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct file f = fx_opened(fx, TOP "runs/1/stdout", O_RDONLY);
	struct stat st;

	fake_output(s, VM_STDOUT, "y");
	fake_exit(s, VM_DONE, 4);
	assert_int_equal(fx_rmdir(fx, TOP "runs/1"), 0);
	assert_false(fx_exists(fx, TOP "runs/1"));
	assert_false(fx_exists(fx, TOP "runs/latest"));
	assert_bytes(fx_read(fx, &f, 10, 0), "y");
	assert_int_equal(fx_stat_ino(fx, f.ino, &st), -ESTALE);
	fx_expect(fx, TOP "exit_code", "4\n"); /* the top still shows the newest run */
	fx_expect(fx, TOP "stdout", "y");
	fx_close(fx, &f);
	fx_run(fx, "z");
	assert_string_equal(fx_ls(fx, TOP "runs"), "latest 2 "); /* numbers are not used again */
}

static void test_table_full(void **state)
{
	struct fixture *fx = *state;
	char name[32];

	for (unsigned i = 1; i < ROSTER_MAX; i++) {
		struct session *s;

		snprintf(name, sizeof(name), "%u", i);
		assert_int_equal(session_create(fx->fs, 1, name, 1, 1, &s), 0);
	}
	assert_int_equal(fx_mkdir(fx, "raw/more"), -ENOSPC);
	assert_int_equal(fx_rmdir(fx, "raw/77"), 0);
	assert_int_equal(fx_mkdir(fx, "raw/more"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_summary),
		fx_test(test_timeout_in_words),
		fx_test(test_states),
		fx_test(test_pause_refused),
		fx_test(test_kill),
		fx_test(test_reset),
		fx_test(test_close),
		fx_test(test_idle_timeout),
		fx_test(test_idle_timeout_off_and_live),
		fx_test(test_idle_timeout_while_code_is_written),
		fx_test(test_refused_for_its_own_reason),
		fx_test(test_list_of_a_removed_session),
		fx_test(test_reset_outlasts_idle_timeout),
		fx_test(test_queue),
		fx_test(test_history_runs),
		fx_test(test_removed_run_lives_on_in_its_handle),
		fx_test(test_table_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
