/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes behind sessions: lost, failed, refused, and a new one for each run. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>

#include "tests/unit/fixture/fixture.h"

#define TOP "python/demo/"

static void test_lost(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct file f = fx_opened(fx, TOP "exit_code", O_RDONLY),
		    g = fx_opened(fx, TOP "stdout", O_RDONLY);
	struct req *r = fx_read(fx, &f, 10, 0);

	fx_put(fx, TOP "in", "never began");
	fake_output(s, VM_STDOUT, "last words");
	fake_die(s, PROBLEM_AGENT_LOST);
	assert_error(r, -EIO); /* no status is guessed */
	fx_expect(fx, TOP "runs/1/state", "lost\n");
	fx_expect(fx, TOP "runs/2/state", "refused\n");
	assert_false(fx_exists(fx, TOP "runs/1/exit_code"));
	assert_bytes(fx_read(fx, &g, 20, 0), "last words");
	fx_expect(fx, TOP "state", "closed\n");
	fx_expect_error(fx, "python/demo", "agent-lost");
	assert_int_equal(fx_put(fx, TOP "in", "y"), -ESTALE);
	fx_expect_error(fx, "python/demo", "agent-lost"); /* the reason is not talked over */
	clock_advance(3600000);
	assert_int_equal(fake_count(), 1); /* nothing is restarted behind the user's back */
	assert_int_equal(fx_put(fx, TOP "ctl", "reset\n"), 0);
	fx_expect(fx, TOP "error", "");
	fx_run(fx, "z");
	fx_expect(fx, TOP "runs/3/state", "running\n");
	fx_close(fx, &f);
	fx_close(fx, &g);
}

/* All processors are busy: the run stays queued until the sandbox says READY once more. */
static void test_no_processor(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	assert_int_equal(fx_put(fx, TOP "in", "x"), 0);
	s = fake_sandbox();
	fake_faults.run_err = -EAGAIN;
	fake_state(s, SANDBOX_STARTING);
	fake_state(s, SANDBOX_READY);
	fx_expect(fx, TOP "runs/1/state", "queued\n");
	fx_expect(fx, TOP "state", "idle\n");
	fx_expect(fx, TOP "error", "");
	clock_advance(3600000); /* it is not idle: it waits */
	fx_expect(fx, TOP "runs/1/state", "queued\n");
	fake_faults.run_err = 0;
	fake_state(s, SANDBOX_READY);
	fx_expect(fx, TOP "runs/1/state", "running\n");
	fake_exit(s, VM_DONE, 0);
	fx_expect(fx, TOP "runs/1/exit_code", "0\n");
}

static void test_dies_while_idle(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");

	fake_exit(s, VM_DONE, 0);
	fake_die(s, PROBLEM_OUT_OF_MEMORY);
	fx_expect(fx, TOP "state", "closed\n");
	fx_expect(fx, TOP "exit_code", "0\n");
}

static void test_failed_to_start(void **state)
{
	struct fixture *fx = *state;
	struct file f;
	struct req *r;

	fx_put(fx, TOP "in", "x");
	f = fx_opened(fx, TOP "exit_code", O_RDONLY);
	r = fx_read(fx, &f, 10, 0);
	assert_waits(r);
	fake_die(fake_sandbox(), PROBLEM_NO_PLACE);
	assert_error(r, -EIO);
	fx_expect(fx, TOP "state", "failed\n");
	fx_expect(fx, TOP "runs/1/state", "refused\n");
	fx_expect_error(fx, "python/demo", "no-place");
	assert_int_equal(fx_put(fx, TOP "in", "y"), 0); /* tries again */
	assert_int_equal(fake_count(), 2);
	fx_expect(fx, TOP "state", "starting\n");
	fx_close(fx, &f);
}

static void test_no_memory_for_a_sandbox(void **state)
{
	struct fixture *fx = *state;

	fake_faults.new_err = -ENOMEM;
	assert_int_equal(fx_put(fx, TOP "in", "x"), 0);
	fx_expect(fx, TOP "state", "failed\n");
	fx_expect(fx, TOP "runs/1/state", "refused\n");
	fx_expect_error(fx, "python/demo", "no-sandbox");
	fake_faults.new_err = 0;
	fx_run(fx, "y");
}

static void test_run_cannot_be_sent(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);

	fake_faults.run_err = -ENOMEM;
	assert_int_equal(fx_put(fx, TOP "in", "x"), 0);
	fx_expect(fx, TOP "runs/1/state", "refused\n");
	fx_expect_error(fx, "python/demo", "not-sent");
	fx_expect(fx, TOP "state", "idle\n");
	fake_faults.run_err = 0;
	fx_put(fx, TOP "in", "y");
	assert_string_equal(s->code, "y");
}

/* Those behind a run that could not be sent must not wait for ever. */
static void test_queue_goes_on_after_one_cannot_be_sent(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "first");
	struct file f;
	struct req *r;

	fx_put(fx, TOP "in", "second");
	fx_put(fx, TOP "in", "third");
	fx_put(fx, TOP "in", "fourth");
	f = fx_opened(fx, TOP "exit_code", O_RDONLY);
	r = fx_read(fx, &f, 10, 0);
	fake_faults.run_err = -ENOMEM;
	fake_exit(s, VM_DONE, 0);
	assert_error(r, -EIO);
	fx_expect(fx, TOP "runs/2/state", "refused\n");
	fx_expect(fx, TOP "runs/3/state", "refused\n");
	fx_expect(fx, TOP "runs/4/state", "refused\n");
	fx_close(fx, &f);
}

static void test_refused_by_the_sandbox(void **state)
{
	struct fixture *fx = *state;
	const struct vm_result r = {.outcome = VM_REFUSED,
				    .wall_us = 1500,
				    .problem = {.code = PROBLEM_NO_INTERPRETER}};
	struct sandbox *s = fx_run(fx, "x");

	fx_put(fx, TOP "in", "y");
	fake_result(s, &r);
	fx_expect(fx, TOP "runs/1/state", "refused\n");
	/* It was handed over, but never began. */
	fx_expect_in(fx, TOP "runs/1/status.json", "\"started\": null,");
	assert_null(strstr(fx_cat(fx, TOP "runs/1/status.json"), "wall_ms"));
	assert_string_equal(s->code, "y");
	fx_expect_error(fx, "python/demo", "no-interpreter");
}

static void test_fresh(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *first, *second;

	assert_int_equal(fx_put(fx, TOP "config", "fresh = yes\n"), 0);
	fx_put(fx, TOP "stdin", "input");
	first = fx_run(fx, "one");
	fx_put(fx, TOP "in", "two");
	fx_put(fx, TOP "in", "three");
	fake_exit(first, VM_DONE, 5);
	assert_true(first->closing);
	second = fake_sandbox();
	assert_ptr_not_equal(first, second);
	fx_expect(fx, TOP "state", "starting\n");
	fx_expect(fx, TOP "runs/1/exit_code", "5\n");
	fx_expect(fx, TOP "runs/2/state", "queued\n"); /* the queue survives */
	fake_settle();
	fx_expect(fx, TOP "runs/2/state", "queued\n"); /* the old one's end means nothing */
	fake_state(second, SANDBOX_READY);
	assert_string_equal(second->code, "two");
	fake_exit(second, VM_DONE, 0);
	fake_state(fake_sandbox(), SANDBOX_READY);
	assert_string_equal(fake_sandbox()->code, "three");
	fake_exit(fake_sandbox(), VM_DONE, 0);
	fake_settle();
	fx_expect(fx, TOP "state", "new\n");
	assert_int_equal(fake_count(), 3);
	assert_int_equal(fake_alive(), 0);
	fx_expect(fx, TOP "error", "");
}

static void test_fresh_and_lost(void **state)
{
	struct fixture *fx = *state;

	fx_put(fx, TOP "config", "fresh = yes\n");
	fx_run(fx, "one");
	fx_put(fx, TOP "in", "two");
	fake_die(fake_sandbox(), PROBLEM_AGENT_LOST);
	fx_expect(fx, TOP "runs/1/state", "lost\n");
	assert_false(fx_exists(fx, TOP "runs/1/exit_code"));
	fake_state(fake_sandbox(), SANDBOX_READY);
	fx_expect(fx, TOP "runs/2/state", "running\n");
}

/* Packages without a version: what there is comes into `error` when it is known, if nothing else has. */
static void test_offer(void **state)
{
	struct fixture *fx = *state;

	fx->conf.packages.list[PACKAGES_PYTHON].any = true;
	assert_int_equal(fx_put(fx, TOP "config", "packages = Foo foo-bar numpy==1.0"), -EINVAL);
	assert_string_equal(fake_asked.packages, "foo foo-bar numpy==1.0");
	fx_expect_error(fx, "python/demo", "invalid");
	assert_non_null(strstr(fx_cat(fx, TOP "error"), "\"Foo\" has no exact version"));
	assert_non_null(strstr(fx_cat(fx, TOP "error"), "is being looked up"));
	fake_offer("foo==2.0 foo-bar==3.1 numpy==1.0", NULL);
	assert_non_null(strstr(fx_cat(fx, TOP "error"),
			       "echo 'packages = foo-bar==3.1 foo==2.0 numpy==1.0' >> config"));
	assert_non_null(strstr(fx_cat(fx, TOP "error"), "\"Foo\" has no exact version"));
	/* What is mended has no error, whatever was said. */
	assert_int_equal(fx_add(fx, TOP "config", "packages = foo==2.0"), 0);
	fx_expect(fx, TOP "error", "");
	/* Nothing to be looked up. */
	assert_int_equal(fx_put(fx, TOP "config", "packages = foo>=1"), -EINVAL);
	assert_int_equal(fx_put(fx, TOP "config", "packages = foo=="), -EINVAL);
	assert_null(fake_asked.fn);
}

static void test_offer_fails(void **state)
{
	static const char *const useless[] = {NULL, "foo", "foo==$(reboot)", "foo==1' ; x '"};
	struct fixture *fx = *state;

	fx->conf.packages.list[PACKAGES_PYTHON].any = true;
	for (unsigned i = 0; i < ARRAY_SIZE(useless); i++) {
		assert_int_equal(fx_put(fx, TOP "config", "packages = foo"), -EINVAL);
		fake_offer(useless[i], "there is no way to the registry");
		assert_non_null(strstr(fx_cat(fx, TOP "error"), "could not be looked up: "));
		assert_null(strstr(fx_cat(fx, TOP "error"), "echo"));
	}
	assert_int_equal(fx_put(fx, TOP "config", "packages = foo"), -EINVAL);
	assert_int_equal(fx_put(fx, TOP "config", "packages = bar"), -EINVAL); /* -EBUSY */
	assert_null(strstr(fx_cat(fx, TOP "error"), "looked up"));
	fake_offer("foo==1", NULL); /* an answer to the one before */
	assert_null(strstr(fx_cat(fx, TOP "error"), "foo==1"));
	assert_int_equal(fx_put(fx, TOP "config", "packages = foo"), -EINVAL);
	assert_int_equal(fx_add(fx, TOP "config", "timeout_s = 5"), 0);
	fake_offer("foo==1", NULL);
	fx_expect(fx, TOP "error", "");
	/* Its directory may be another session's by then. */
	assert_int_equal(fx_put(fx, TOP "config", "packages = foo"), -EINVAL);
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	assert_int_equal(fx_mkdir(fx, "python/demo"), 0);
	fake_offer("foo==1", NULL);
	fx_expect(fx, TOP "error", "");
}

/* A reset that comes when the sandbox is ending, which nobody can know, is for the next one. */
static void test_reset_at_the_end(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");

	fake_exit(s, VM_TIMEOUT, 124);
	fx_put(fx, TOP "ctl", "reset\n");
	fx_put(fx, TOP "ctl", "reset\n"); /* it is not READY */
	fx_put(fx, TOP "in", "y");
	fake_die(s, PROBLEM_AGENT_SILENT);
	assert_int_equal(fake_count(), 2);
	fx_expect(fx, TOP "state", "starting\n");
	fx_expect(fx, TOP "runs/2/state", "queued\n");
	fx_ready(fx);
	fx_expect(fx, TOP "runs/2/state", "running\n");
}

/* What a sandbox that was let go still reports goes nowhere. */
static void test_late_reports(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *old = fx_run(fx, "x"), *now;

	fx_put(fx, TOP "ctl", "close\nreset\n");
	fx_put(fx, TOP "in", "y");
	now = fx_ready(fx);
	fake_output(now, VM_STDOUT, "right");
	old->events->output(old->data, old->run, VM_STDOUT, "wrong", 5);
	old->events->output(old->data, 2, VM_STDOUT, "wrong", 5);
	fake_console(old, "wrong");
	old->events->state(old->data, SANDBOX_READY);
	fake_settle();
	fake_exit(now, VM_DONE, 0);
	fx_expect(fx, TOP "output", "right");
	fx_expect(fx, TOP "console", "");
	fx_expect(fx, TOP "runs/1/state", "killed\n");
	/* Nor do reports on runs that are not there. */
	now->events->output(now->data, 99, VM_STDOUT, "wrong", 5);
	now->events->exit(now->data, 99, &(struct vm_result){.outcome = VM_DONE});
	fx_expect(fx, TOP "output", "right");
}

static void test_rmdir(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_put(fx, TOP "stdin", "input");
	s = fx_run(fx, "x");
	fx_put(fx, TOP "in", "y");
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	assert_true(s->closing);
	assert_false(fx_exists(fx, "python/demo"));
	assert_int_equal(fx_mkdir(fx, "python/demo"), 0); /* at once, with another sandbox */
	fx_expect(fx, TOP "state", "new\n");
	fx_run(fx, "z");
	assert_int_equal(fake_count(), 2);
	fake_settle();
	fx_expect(fx, TOP "state", "running\n");
}

static void test_console(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	static char block[100001];
	const char *text;
	size_t len;

	fake_console(s, "boot\n");
	fx_expect(fx, TOP "console", "boot\n");
	for (unsigned i = 0; i < 12; i++) {
		memset(block, 'a' + (char)i, sizeof(block) - 1);
		fake_console(s, block);
	}
	text = fx_cat(fx, TOP "console");
	len = strlen(text);
	assert_true(len <= SESSION_CONSOLE_MAX && len > SESSION_CONSOLE_MAX / 2);
	assert_int_equal(text[len - 1], 'l'); /* the newest is kept */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_lost),
		fx_test(test_no_processor),
		fx_test(test_dies_while_idle),
		fx_test(test_failed_to_start),
		fx_test(test_no_memory_for_a_sandbox),
		fx_test(test_run_cannot_be_sent),
		fx_test(test_queue_goes_on_after_one_cannot_be_sent),
		fx_test(test_refused_by_the_sandbox),
		fx_test(test_fresh),
		fx_test(test_fresh_and_lost),
		fx_test(test_offer),
		fx_test(test_offer_fails),
		fx_test(test_reset_at_the_end),
		fx_test(test_late_reports),
		fx_test(test_rmdir),
		fx_test(test_console),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
