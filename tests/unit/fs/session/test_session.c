/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: states, how runs end, `ctl`, the queue, the history, limits. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <stdio.h>

#include "tests/unit/fixture/fixture.h"

#define TOP	      "python/demo/"
#define ctl(b, verbs) bed_put(b, TOP "ctl", verbs "\n")

static struct session *demo(struct bed *b)
{
	return session_find(b->fs, 0, "demo");
}

static void test_summary(void **state)
{
	struct bed *b = *state;
	struct sandbox *s = bed_run(b, "x");
	struct vm_result r = {.outcome = VM_DONE, .wall_us = 41000};

	fake_output(s, VM_STDOUT, "twelve bytes");
	fake_result(s, &r);
	bed_expect(b, TOP "summary",
		   "run 1: exit 0 in 41 ms, 12 bytes on stdout, nothing on stderr\n");
	bed_run(b, "x");
	fake_output(s, VM_STDERR, "e");
	r = (struct vm_result){
		.outcome = VM_TIMEOUT, .status = 124, .wall_us = 30000000, .dropped = {5, 0}};
	fake_result(s, &r);
	bed_expect(b, TOP "summary",
		   "run 2: timeout, exit 124 after 30.0 s, nothing on stdout (truncated), "
		   "1 byte on stderr\n");
	assert_non_null(strstr(bed_cat(b, TOP "runs/2/status.json"), "\"truncated\": true"));
}

/* What the problem names is what the run began with, whatever the settings say by now. */
static void test_timeout_in_words(void **state)
{
	struct bed *b = *state;
	struct sandbox *s;

	bed_put(b, TOP "config", "timeout_s = 7\n");
	s = bed_run(b, "x");
	assert_int_equal(s->timeout_ms, 7000);
	assert_int_equal(bed_add(b, TOP "config", "timeout_s = 50\n"), 0);
	fake_exit(s, VM_TIMEOUT, 124);
	bed_expect_error(b, "python/demo", "timeout");
	assert_non_null(strstr(bed_cat(b, TOP "error"), "timeout_s = 7\n"));
	assert_non_null(strstr(bed_cat(b, TOP "error"), "'timeout_s = 28' >> config"));
}

static void test_states(void **state)
{
	struct bed *b = *state;
	struct sandbox *s;

	bed_expect(b, TOP "state", "new\n");
	bed_put(b, TOP "in", "x");
	bed_expect(b, TOP "state", "starting\n");
	s = fake_sandbox();
	assert_string_equal(s->name, "python-demo");
	assert_string_equal(s->language, "python");
	assert_int_equal(s->memory_mb, 192);
	fake_state(s, SANDBOX_STARTING);
	bed_expect(b, TOP "state", "starting\n");
	fake_state(s, SANDBOX_READY);
	bed_expect(b, TOP "state", "running\n");
	fake_exit(s, VM_DONE, 0);
	bed_expect(b, TOP "state", "idle\n");
	assert_int_equal(ctl(b, "close"), 0);
	bed_expect(b, TOP "state", "closed\n");
	fake_settle();
	bed_expect(b, TOP "exit_code", "0\n"); /* results stay */
	assert_int_equal(bed_put(b, TOP "in", "y"), -ESTALE);
	bed_expect_error(b, "python/demo", "closed");
	assert_int_equal(ctl(b, "reset"), 0);
	bed_expect(b, TOP "state", "new\n");
	assert_int_equal(fake_count(), 1); /* nothing starts by itself */
	assert_int_equal(bed_put(b, TOP "in", "y"), 0);
	assert_int_equal(fake_count(), 2);
	bed_expect(b, TOP "state", "starting\n");
}

/* ---- ctl ---- */

static void test_kill(void **state)
{
	struct bed *b = *state;
	struct sandbox *s;

	assert_int_equal(ctl(b, "kill"), -ESRCH);
	bed_put(b, TOP "in", "one");
	bed_put(b, TOP "in", "two");
	assert_int_equal(ctl(b, "kill"), 0); /* of what waits, the first: it never ran */
	bed_expect(b, TOP "runs/1/state", "refused\n");
	bed_expect(b, TOP "runs/2/state", "queued\n");
	s = bed_ready(b);
	assert_string_equal(s->code, "two");
	assert_int_equal(ctl(b, "kill"), 0);
	assert_int_equal(s->signals[SANDBOX_KILL], 1);
	bed_expect(b, TOP "state", "running\n"); /* until the sandbox says so */
	fake_exit(s, VM_KILLED, 137);
	bed_expect(b, TOP "runs/2/state", "killed\n");
	assert_int_equal(ctl(b, "kill\nreset"), -ESRCH);
	assert_int_equal(s->nresets, 0); /* the first that fails ends it */
	assert_int_equal(ctl(b, "kil"), -EINVAL);
	bed_expect_error(b, "python/demo", "unknown-verb");
}

static void test_reset(void **state)
{
	struct bed *b = *state;
	struct sandbox *s;

	assert_int_equal(ctl(b, "reset"), 0); /* new */
	bed_put(b, TOP "in", "x");
	assert_int_equal(ctl(b, "reset"), 0); /* starting: the run goes on */
	s = bed_ready(b);
	assert_int_equal(ctl(b, "reset"), 0); /* running: with the run its interpreter ends */
	assert_int_equal(s->signals[SANDBOX_KILL], 1);
	fake_exit(s, VM_KILLED, 137); /* which left the interpreter as it was */
	assert_int_equal(s->nresets, 1);
	assert_int_equal(ctl(b, "reset"), 0); /* while the interpreter starts anew: once more */
	fake_state(s, SANDBOX_READY);
	assert_int_equal(s->nresets, 2);
	bed_put(b, TOP "in", "after");
	bed_expect(b, TOP "runs/2/state", "queued\n");
	fake_state(s, SANDBOX_READY);
	bed_expect(b, TOP "runs/2/state", "running\n");
	assert_int_equal(fake_count(), 1);
}

static void test_close(void **state)
{
	struct bed *b = *state;
	struct sandbox *s = bed_run(b, "x");
	struct file f = bed_opened(b, TOP "exit_code", O_RDONLY);
	struct req *r = bed_read(b, &f, 10, 0);

	bed_put(b, TOP "in", "waits");
	fake_output(s, VM_STDOUT, "so far");
	assert_int_equal(ctl(b, "close"), 0);
	assert_bytes(r, "137\n");
	bed_expect(b, TOP "runs/1/state", "killed\n");
	bed_expect(b, TOP "runs/1/stdout", "so far");
	bed_expect(b, TOP "runs/2/state", "refused\n");
	assert_true(s->closing);
	assert_int_equal(ctl(b, "close"), 0); /* again: nothing to do */
	assert_int_equal(ctl(b, "reset"), 0);
	bed_put(b, TOP "in", "next"); /* while the old sandbox still ends */
	fake_settle();
	bed_expect(b, TOP "state", "starting\n");
	assert_ptr_not_equal(fake_sandbox(), s);
	bed_close(b, &f);
}

static void test_idle_timeout(void **state)
{
	struct bed *b = *state;
	struct sandbox *s;

	bed_put(b, TOP "config", "idle_timeout_s = 10\n");
	clock_advance(60000);
	bed_expect(b, TOP "state", "new\n");
	s = bed_run(b, "x");
	clock_advance(60000);
	bed_expect(b, TOP "state", "running\n");
	fake_exit(s, VM_DONE, 0);
	clock_advance(9000);
	bed_run(b, "y");
	clock_advance(2000);
	fake_exit(s, VM_DONE, 7);
	clock_advance(9999);
	bed_expect(b, TOP "state", "idle\n");
	clock_advance(1);
	bed_expect(b, TOP "state", "closed\n");
	bed_expect_error(b, "python/demo", "idle-timeout");
	bed_expect(b, TOP "exit_code", "7\n");
	assert_true(s->closing);
	assert_int_equal(bed_put(b, TOP "in", "z"), -ESTALE);
	bed_expect_error(b, "python/demo", "idle-timeout"); /* still says why */
}

/* Code that is refused says why it was, whatever went wrong last. */
static void test_refused_for_its_own_reason(void **state)
{
	struct bed *b = *state;
	struct file f = bed_opened(b, TOP "in", O_WRONLY | O_TRUNC);

	assert_int_equal(bed_write(b, &f, "x"), 0);
	assert_int_equal(ctl(b, "close"), 0);
	assert_int_equal(ctl(b, "interrupt"), -ESRCH);
	bed_expect_error(b, "python/demo", "not-running");
	bed_close(b, &f);
	bed_expect_error(b, "python/demo", "closed");
	bed_expect(b, TOP "runs/1/state", "refused\n");
	assert_int_equal(ctl(b, "interrupt"), -ESRCH);
	assert_int_equal(bed_put(b, TOP "in", "y"), -ESTALE);
	bed_expect_error(b, "python/demo", "closed");
}

/* Each write of code is use; an open file is not. */
static void test_idle_timeout_while_code_is_written(void **state)
{
	struct bed *b = *state;
	struct file f;

	bed_put(b, TOP "config", "idle_timeout_s = 5\n");
	bed_ready(b);
	f = bed_opened(b, TOP "in", O_WRONLY | O_TRUNC);
	for (int i = 0; i < 3; i++) {
		clock_advance(4000);
		assert_int_equal(bed_write(b, &f, "x\n"), 0);
	}
	clock_advance(4999);
	bed_expect(b, TOP "state", "idle\n");
	clock_advance(1);
	bed_expect(b, TOP "state", "closed\n");
	bed_close(b, &f);
	bed_expect(b, TOP "runs/1/state", "refused\n");
}

/* A list of changes that was asked for before. */
static void test_list_of_a_removed_session(void **state)
{
	struct bed *b = *state;
	struct session *s = session_find(b->fs, 0, "demo");
	struct file f;

	free((char *)s->settings.spec.work);
	s->settings.spec.work = strdup("/work");
	f = bed_opened(b, TOP "files.changes", O_RDONLY);
	handle_get(&b->fs->handles, f.fh)->asked = true;
	assert_int_equal(bed_rmdir(b, "python/demo"), 0);
	assert_error(bed_read(b, &f, 10, 0), -ESTALE);
	bed_close(b, &f);
}

static void test_idle_timeout_off_and_live(void **state)
{
	struct bed *b = *state;

	bed_put(b, TOP "config", "idle_timeout_s = 0\n");
	bed_ready(b);
	clock_advance(100000000);
	bed_expect(b, TOP "state", "idle\n");
	bed_put(b, TOP "config", "idle_timeout_s = 5\n");
	clock_advance(4999);
	bed_expect(b, TOP "state", "idle\n");
	clock_advance(1);
	bed_expect(b, TOP "state", "closed\n");
}

static void test_reset_outlasts_idle_timeout(void **state)
{
	struct bed *b = *state;
	struct sandbox *s;

	bed_put(b, TOP "config", "idle_timeout_s = 5\n");
	s = bed_ready(b);
	assert_int_equal(ctl(b, "reset"), 0);
	bed_put(b, TOP "in", "x"); /* waits for the new interpreter */
	clock_advance(60000);
	fake_state(s, SANDBOX_READY);
	bed_expect(b, TOP "runs/1/state", "running\n");
}

/* ---- queue, history, limits ---- */

static void test_queue(void **state)
{
	struct bed *b = *state;
	struct sandbox *s = bed_run(b, "0");
	struct file f = bed_opened(b, TOP "in", O_WRONLY | O_TRUNC);
	char code[16];

	for (unsigned i = 1; i <= SESSION_QUEUE_MAX; i++) {
		snprintf(code, sizeof(code), "%u", i);
		assert_int_equal(bed_put(b, TOP "in", code), 0);
	}
	assert_int_equal(bed_put(b, TOP "in", "too many"), -EBUSY);
	bed_expect_error(b, "python/demo", "queue-full");
	assert_int_equal(bed_write(b, &f, "too many"), -EBUSY);
	bed_close(b, &f);
	for (unsigned i = 0; i <= SESSION_QUEUE_MAX; i++) {
		snprintf(code, sizeof(code), "%u", i);
		assert_string_equal(s->code, code); /* in order */
		assert_int_equal(s->run, i + 1);
		fake_exit(s, VM_DONE, 0);
	}
	assert_int_equal(s->run, 0);
	bed_expect(b, TOP "state", "idle\n");
}

static void test_history_runs(void **state)
{
	struct bed *b = *state;
	struct sandbox *s;

	b->conf.history_runs = 3;
	for (int i = 0; i < 5; i++) {
		s = bed_run(b, "x");
		fake_exit(s, VM_DONE, 0);
	}
	assert_string_equal(bed_ls(b, TOP "runs"), "latest 3 4 5 ");
	assert_int_equal(bed_size(b, TOP "runs/latest"), 1);
	assert_non_null(strstr(bed_cat(b, TOP "status.json"), "\"removed\": 2"));
	/* Queued runs are not history. */
	for (int i = 0; i < 5; i++)
		bed_put(b, TOP "in", "q");
	assert_int_equal(demo(b)->nruns, 5);
	assert_int_equal(bed_rmdir(b, TOP "runs/99"), -ENOENT);
	assert_int_equal(bed_rmdir(b, TOP "runs/06"), -ENOENT);
}

static void test_removed_run_lives_on_in_its_handle(void **state)
{
	struct bed *b = *state;
	struct sandbox *s = bed_run(b, "x");
	struct file f = bed_opened(b, TOP "runs/1/stdout", O_RDONLY);
	struct stat st;

	fake_output(s, VM_STDOUT, "y");
	fake_exit(s, VM_DONE, 4);
	assert_int_equal(bed_rmdir(b, TOP "runs/1"), 0);
	assert_false(bed_exists(b, TOP "runs/1"));
	assert_false(bed_exists(b, TOP "runs/latest"));
	assert_bytes(bed_read(b, &f, 10, 0), "y");
	assert_int_equal(bed_stat_ino(b, f.ino, &st), -ESTALE);
	bed_expect(b, TOP "exit_code", "4\n"); /* the top still shows the newest run */
	bed_expect(b, TOP "stdout", "y");
	bed_close(b, &f);
	bed_run(b, "z");
	assert_string_equal(bed_ls(b, TOP "runs"), "latest 2 "); /* numbers are not used again */
}

static void test_table_full(void **state)
{
	struct bed *b = *state;
	char name[32];

	for (unsigned i = 1; i < FS_SESSIONS_MAX; i++) {
		struct session *s;

		snprintf(name, sizeof(name), "%u", i);
		assert_int_equal(session_create(b->fs, 1, name, 1, 1, &s), 0);
	}
	assert_int_equal(bed_mkdir(b, "raw/more"), -ENOSPC);
	assert_int_equal(bed_rmdir(b, "raw/77"), 0);
	assert_int_equal(bed_mkdir(b, "raw/more"), 0);
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, bed_up, bed_down)
	const struct CMUnitTest tests[] = {
		test(test_summary),
		test(test_timeout_in_words),
		test(test_states),
		test(test_kill),
		test(test_reset),
		test(test_close),
		test(test_idle_timeout),
		test(test_idle_timeout_off_and_live),
		test(test_idle_timeout_while_code_is_written),
		test(test_refused_for_its_own_reason),
		test(test_list_of_a_removed_session),
		test(test_reset_outlasts_idle_timeout),
		test(test_queue),
		test(test_history_runs),
		test(test_removed_run_lives_on_in_its_handle),
		test(test_table_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
