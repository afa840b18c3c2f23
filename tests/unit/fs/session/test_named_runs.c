/* SPDX-License-Identifier: Apache-2.0 */
/* Named runs beside the session's own: whose input is whose, and what becomes of those who wait for one. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <poll.h>

#include "tests/unit/fixture/fixture.h"

#define TOP "python/demo/"
#define A   TOP "runs/a/"

/* In place of the C library's. */
static bool no_memory;

char *strdup(const char *text) /* NOLINT(readability-inconsistent-declaration-parameter-name) */
{
	const size_t size = strlen(text) + 1;
	char *copy = no_memory ? NULL : malloc(size);

	return copy ? memcpy(copy, text, size) : NULL;
}

static void queue_a(struct fixture *fx)
{
	assert_int_equal(fx_mkdir(fx, TOP "runs/a"), 0);
	assert_int_equal(fx_put(fx, A "stdin", "of a"), 0);
	assert_int_equal(fx_put(fx, A "in", "a()"), 0);
}

static void expect_input(struct sandbox *s, const char *text, bool eof)
{
	assert_int_equal(s->in.got.len, strlen(text));
	assert_memory_equal(s->in.got.data, text, strlen(text));
	assert_int_equal(s->in.eof, eof);
}

/* Who writes to the session's stdin is the next writer of the session's next run, whatever is queued between. */
static void test_writers_of_the_session(void **state)
{
	struct fixture *fx = *state;
	struct file in = fx_opened(fx, TOP "stdin", O_WRONLY);
	struct sandbox *s = fx_run(fx, "1");

	assert_true(s->in.open);
	queue_a(fx);
	fake_exit(s, VM_DONE, 0);
	assert_string_equal(s->code, "a()");
	expect_input(s, "of a", true);
	assert_int_equal(fx_write(fx, &in, "x"), -EPIPE);
	assert_int_equal(fx_put(fx, TOP "in", "2"), 0);
	assert_int_equal(fx_write(fx, &in, "of 2"), 0);
	expect_input(s, "of a", true);
	fake_exit(s, VM_DONE, 0);
	assert_string_equal(s->code, "2");
	expect_input(s, "of 2", false);
	fx_close(fx, &in);
	expect_input(s, "of 2", true);
	fake_exit(s, VM_DONE, 0);
}

/* One that is queued behind a named run has them as soon as the one before has ended. */
static void test_behind_a_named_run(void **state)
{
	struct fixture *fx = *state;
	struct file in = fx_opened(fx, TOP "stdin", O_WRONLY);
	struct sandbox *s = fx_run(fx, "1");

	queue_a(fx);
	assert_int_equal(fx_put(fx, TOP "in", "2"), 0);
	fake_exit(s, VM_DONE, 0);
	assert_string_equal(s->code, "a()");
	assert_int_equal(fx_write(fx, &in, "of 2"), 0);
	expect_input(s, "of a", true);
	fake_exit(s, VM_DONE, 0);
	expect_input(s, "of 2", false);
	fx_close(fx, &in);
	expect_input(s, "of 2", true);
	fake_exit(s, VM_DONE, 0);
}

/* A later open of the session's stdin is for the session's run that goes on, not for the named one, which is newer. */
static void test_opened_later(void **state)
{
	struct fixture *fx = *state;
	struct file first = fx_opened(fx, TOP "stdin", O_WRONLY), later;
	struct sandbox *s = fx_run(fx, "1");

	assert_int_equal(fx_mkdir(fx, TOP "runs/a"), 0);
	assert_int_equal(fx_put(fx, A "config", "stdin = open\n"), 0);
	assert_int_equal(fx_put(fx, A "in", "a()"), 0);
	later = fx_opened(fx, TOP "stdin", O_WRONLY);
	assert_int_equal(fx_write(fx, &later, "of 1"), 0);
	expect_input(s, "of 1", false);
	fx_close(fx, &first);
	expect_input(s, "of 1", false);
	assert_int_equal(fx_put(fx, TOP "ctl", "eof"), 0);
	expect_input(s, "of 1", true);
	fx_close(fx, &later);
	fake_exit(s, VM_DONE, 0);
	assert_string_equal(s->code, "a()");
	assert_int_equal(fx_put(fx, TOP "ctl", "eof"), -ESRCH);
	expect_input(s, "", false);
	assert_int_equal(fx_put(fx, A "ctl", "eof"), 0);
	expect_input(s, "", true);
	fake_exit(s, VM_DONE, 0);
}

/* The input of a run that waits has ended by `eof`: that stays so when the run before it ends. */
static void test_eof_while_it_waits(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "1");
	struct file in = fx_opened(fx, TOP "stdin", O_WRONLY);

	assert_int_equal(fx_write(fx, &in, "of 2"), 0);
	in.offset = 0;
	assert_int_equal(fx_put(fx, TOP "in", "2"), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "eof"), 0);
	fake_exit(s, VM_DONE, 0);
	assert_string_equal(s->code, "2");
	expect_input(s, "of 2", true);
	assert_int_equal(fx_write(fx, &in, "x"), -EPIPE);
	fx_close(fx, &in);
	fake_exit(s, VM_DONE, 0);
}

/* Who waits for what is written to become a run is told at once that it never will. */
static void test_removed(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "1");
	struct file in, out, code, other = fx_opened(fx, TOP "exit_code", O_RDONLY);
	struct pollwait *pw = pollwait_new();
	struct req *of_out, *of_code, *of_other;

	assert_int_equal(fx_mkdir(fx, TOP "runs/a"), 0);
	in = fx_opened(fx, A "in", O_WRONLY | O_TRUNC);
	assert_int_equal(fx_write(fx, &in, "a()"), 0);
	out = fx_opened(fx, A "stdout", O_RDONLY);
	code = fx_opened(fx, A "exit_code", O_RDONLY);
	of_out = fx_read(fx, &out, 100, 0);
	of_code = fx_read(fx, &code, 100, 0);
	of_other = fx_read(fx, &other, 100, 0);
	assert_int_equal(fx_poll(fx, &out, pw)->number, 0);
	assert_int_equal(fx_rmdir(fx, TOP "runs/a"), 0);
	assert_error(of_out, -ESTALE);
	assert_error(of_code, -ESTALE);
	assert_true(pw->notified);
	assert_waits(of_other);
	fx_close(fx, &in);
	fx_close(fx, &out);
	fx_close(fx, &code);
	fake_exit(s, VM_DONE, 0);
	assert_bytes(of_other, "0\n");
	fx_close(fx, &other);
}

/* Without memory for its settings there is no run at all, and it can be written again. */
static void test_no_memory(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "1");

	assert_int_equal(fx_mkdir(fx, TOP "runs/a"), 0);
	assert_int_equal(fx_put(fx, A "config", "cwd = there\n"), 0);
	no_memory = true;
	fx_put(fx, A "in", "a()");
	no_memory = false;
	fx_expect(fx, A "state", "new\n");
	fx_expect_error(fx, TOP "runs/a", "dropped");
	assert_string_equal(fx_ls(fx, TOP "runs"), "latest 1 a ");
	assert_int_equal(fx_put(fx, A "in", "a()"), 0);
	fake_exit(s, VM_DONE, 0);
	assert_string_equal(s->code, "a()");
	fake_exit(s, VM_DONE, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_writers_of_the_session),
		fx_test(test_behind_a_named_run),
		fx_test(test_opened_later),
		fx_test(test_eof_while_it_waits),
		fx_test(test_removed),
		fx_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
