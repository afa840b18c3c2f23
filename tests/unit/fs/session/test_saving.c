/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that last: saved, asleep, awake, back at a checkpoint. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "tests/unit/fixture/fixture.h"
#include "fs/files/files.h"

#define TOP "python/demo/"

/* ---- asleep, awake ---- */

static void test_sleep_and_wake(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_asleep(fx);
	fx_expect_in(fx, TOP "status.json", "\"memory_bytes\": 1000");
	clock_advance(3 * 3600000 + 5);
	assert_int_equal(fx_put(fx, TOP "ctl", "wake\n"), 0);
	clock_advance(240);
	s = fx_woken(fx);
	assert_true(s->from_memory);
	fx_expect(fx, TOP "state", "idle\n");
	fx_expect(fx, TOP "error", "");
	fx_expect_in(fx, TOP "status.json", "\"state_kept\": true");
	assert_int_equal(fake_packs(), 0); /* it is not kept for nothing */
	assert_int_equal(fx_put(fx, TOP "ctl", "wake\nwake\n"), 0);
	fx_put(fx, TOP "in", "y");
	assert_string_equal(s->code, "y");
	fx_expect(fx, TOP "runs/2/state", "running\n");
}

/* How long it slept, and how long waking took. */
static void test_words_of_a_wake(void **state)
{
	struct fixture *fx = *state;
	struct file f;
	struct req *r;

	fx_asleep(fx);
	clock_advance(3 * 3600000 + 5);
	fx_put(fx, TOP "in", "y");
	clock_advance(240);
	fx_woken(fx);
	f = fx_opened(fx, TOP "events", O_RDONLY);
	r = fx_read(fx, &f, 65536, 0);
	assert_int_equal(r->kind, ANSWER_BUF);
	assert_non_null(strstr(r->data, "asleep 3 h, awake in 240 ms"));
	assert_non_null(strstr(r->data, "\"state\":\"asleep\""));
	fx_close(fx, &f);
	fx_expect_in(fx, TOP "summary", "nothing on stderr; asleep 3 h, awake in 240 ms\n");
	fx_expect_in(fx, TOP "runs/2/status.json", "\"woke\": \"asleep 3 h, awake in 240 ms\"");
	fx_expect_in(fx, TOP "runs/1/status.json", "\"woke\": null");
}

static void test_a_job_tells_of_its_wake(void **state)
{
	struct fixture *fx = *state;

	fx_asleep(fx);
	clock_advance(30000);
	assert_int_equal(fx_mkdir(fx, TOP "jobs/j"), 0);
	assert_int_equal(fx_put(fx, TOP "jobs/j/in", "z"), 0);
	clock_advance(7);
	fx_woken(fx);
	fx_expect_in(fx, TOP "jobs/j/summary", "; asleep 30 s, awake in 7 ms\n");
}

/* What was saved lacks something: that is said where it is looked at, and who begins with it alone has lost it. */
static void test_flaws(void **state)
{
	struct fixture *fx = *state;

	fx_asleep(fx);
	fx_expect_in(fx, TOP "status.json", "\"flaws\": null");
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"flaws\": null");
	fake_flaws = (struct pack_flaws){.left_out = 1};
	fx_expect_in(fx, TOP "status.json", "\"flaws\": \"of 1 file not everything is there");
	fx_expect_in(fx, TOP "checkpoints/a/status.json",
		     "\"flaws\": \"of 1 file not everything is there");
	fake_flaws.changed = 2;
	fx_expect_in(fx, TOP "checkpoints/a/status.json",
		     "\"flaws\": \"2 of the files and directories changed");
	fx_put(fx, TOP "ctl", "wake\n");
	fx_woken(fx);
	fx_expect(fx, TOP "error", ""); /* it is all in its memory */
	fx_expect_in(fx, TOP "status.json", "\"lost\": null");
	assert_int_equal(fx_put(fx, TOP "ctl", "restore a\nreset\nwake\n"), 0);
	fake_settle();
	fake_state(fake_sandbox(), SANDBOX_READY);
	fx_expect_in(fx, TOP "error",
		     "code: state-lost\ncause: its files are not all as they were saved: 2 of");
	fx_expect_in(fx, TOP "status.json",
		     "\"lost\": \"its interpreter was to be a fresh one; 2 of");
	fake_flaws = (struct pack_flaws){0};
}

/* A fresh interpreter that somebody wanted is no loss. */
static void test_reset_is_no_loss(void **state)
{
	struct fixture *fx = *state;

	fx_asleep(fx);
	assert_int_equal(fx_put(fx, TOP "ctl", "reset\nwake\n"), 0);
	fake_state(fake_sandbox(), SANDBOX_READY);
	fx_expect(fx, TOP "error", "");
	fx_expect_in(fx, TOP "status.json", "\"lost\": \"its interpreter was to be a fresh one\"");
}

static void test_code_wakes(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_asleep(fx);
	assert_int_equal(fx_put(fx, TOP "in", "y"), 0);
	fx_expect(fx, TOP "runs/2/state", "queued\n");
	s = fx_woken(fx);
	assert_string_equal(s->code, "y");
	fx_expect(fx, TOP "state", "running\n");
}

static void test_a_job_wakes(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_asleep(fx);
	assert_int_equal(fx_mkdir(fx, TOP "jobs/j"), 0);
	assert_int_equal(fake_alive(), 0);
	assert_int_equal(fx_put(fx, TOP "jobs/j/in", "z"), 0);
	s = fx_woken(fx);
	assert_non_null(fake_job(s, 0));
}

/* Everything that can be read, is, and nothing wakes it. */
static void test_reading_wakes_nothing(void **state)
{
	static const char *const names[] = {"in",      "stdout",      "exit_code", "summary",
					    "state",   "status.json", "error",	   "config",
					    "console", "ports"};
	struct fixture *fx = *state;

	fx_asleep(fx);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		char path[64];

		snprintf(path, sizeof(path), TOP "%s", names[i]);
		(void)fx_cat(fx, path);
	}
	(void)fx_ls(fx, "python/demo");
	(void)fx_ls(fx, TOP "checkpoints");
	assert_int_equal(fake_alive(), 0);
	fx_expect(fx, TOP "state", "asleep\n");
}

/* It is slept on with what it has if it can't be woken. */
static void test_a_wake_that_fails(void **state)
{
	struct fixture *fx = *state;

	fx_asleep(fx);
	fx_put(fx, TOP "in", "y");
	fake_die(fake_sandbox(), PROBLEM_NO_PLACE);
	fx_expect(fx, TOP "runs/2/state", "refused\n");
	fx_expect(fx, TOP "state", "asleep\n");
	fx_expect_error(fx, "python/demo", "no-place");
	fake_faults.new_err = -ENOMEM;
	fx_put(fx, TOP "in", "z");
	fx_expect(fx, TOP "state", "asleep\n");
	fake_faults.new_err = 0;
	fx_put(fx, TOP "in", "z");
	assert_string_equal(fx_woken(fx)->code, "z");
}

/* Its memory fits no machine any more: its files are there, and that is said. */
static void test_memory_that_does_not_fit(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_asleep(fx);
	fx_put(fx, TOP "in", "y");
	fake_die(fake_sandbox(), PROBLEM_NOT_RESTORED);
	s = fake_sandbox();
	assert_false(s->closing);
	assert_non_null(s->from);
	assert_false(s->from_memory);
	fake_state(s, SANDBOX_READY);
	assert_string_equal(s->code, "y"); /* it was not refused */
	fx_expect_error(fx, "python/demo", "state-lost");
	fx_expect_in(fx, TOP "status.json", "\"state_kept\": false");
}

/* Not even its files can be had, whatever is tried: it is not tried for ever, and a checkpoint is a way out. */
static void test_what_was_saved_is_damaged(void **state)
{
	struct fixture *fx = *state;

	fx_loses_sleep(fx);
	fx_expect_error(fx, "python/demo", "damaged");
	assert_int_equal(fx_put(fx, TOP "in", "z"), -ESTALE);
	assert_int_equal(fx_put(fx, TOP "ctl", "restore a\n"), 0);
	fx_expect(fx, TOP "state", "asleep\n");
	fx_put(fx, TOP "in", "z");
	assert_string_equal(fx_woken(fx)->code, "z");
}

static void test_kill_and_close_and_reset_of_a_sleeper(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_asleep(fx);
	assert_int_equal(fx_put(fx, TOP "ctl", "kill\n"), -ESRCH);
	assert_int_equal(fx_put(fx, TOP "ctl", "pause\n"), -EBUSY);
	fx_expect_in(fx, TOP "error", "echo wake > ctl");
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "reset\n"), 0);
	fx_expect(fx, TOP "state", "asleep\n");
	fx_put(fx, TOP "in", "y");
	s = fx_woken(fx);
	assert_false(s->from_memory); /* files outlast a reset, the interpreter does not */
	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
	fx_saved(s);
	assert_int_equal(fx_put(fx, TOP "ctl", "close\n"), 0);
	fx_expect(fx, TOP "state", "closed\n");
	assert_int_equal(fake_packs(), 0);
	assert_int_equal(fx_put(fx, TOP "in", "y"), -ESTALE);
	assert_int_equal(fx_put(fx, TOP "ctl", "wake\n"), -EBUSY);
	assert_int_equal(fx_put(fx, TOP "ctl", "reset\n"), 0);
	fx_put(fx, TOP "in", "y");
	assert_null(fake_sandbox()->from);
}

/* A reset that comes while it wakes with its memory is done when it is up. */
static void test_reset_while_waking(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_asleep(fx);
	fx_put(fx, TOP "in", "y");
	assert_int_equal(fx_put(fx, TOP "ctl", "reset\n"), 0);
	s = fx_woken(fx);
	assert_int_equal(s->nresets, 1);
	assert_int_equal(s->nruns, 0);
	fake_state(s, SANDBOX_READY);
	assert_int_equal(s->nruns, 1);
}

/* Reset while it wakes, which fails. */
static void test_reset_while_waking_fails(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_asleep(fx);
	fx_put(fx, TOP "in", "y");
	assert_int_equal(fx_put(fx, TOP "ctl", "reset\n"), 0);
	fake_die(fake_sandbox(), PROBLEM_NO_PLACE);
	fx_expect(fx, TOP "runs/2/state", "queued\n");
	s = fake_sandbox();
	assert_false(s->closing);
	fake_state(s, SANDBOX_READY);
	printf("from_memory %d nresets %u nruns %u\n", s->from_memory, s->nresets, s->nruns);
	assert_true(!s->from_memory || s->nresets);
}

static void test_removed_while_asleep(void **state)
{
	struct fixture *fx = *state;

	fx_asleep(fx);
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	assert_int_equal(fake_packs(), 0);
}

/* Settings of what is saved are those of what will be woken. */
static void test_settings_of_a_sleeper(void **state)
{
	struct fixture *fx = *state;

	fx_asleep(fx);
	assert_int_equal(fx_add(fx, TOP "config", "memory_mb = 256\n"), -EBUSY);
	fx_expect_error(fx, "python/demo", "frozen");
	assert_int_equal(fx_add(fx, TOP "config", "timeout_s = 7\n"), 0);
	fx_put(fx, TOP "in", "y");
	assert_int_equal(fx_woken(fx)->timeout_ms, 7000);
}

/* ---- when it can't be saved ---- */

static void test_busy(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), -EBUSY); /* there is nothing */
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), -EBUSY);
	s = fx_run(fx, "x");
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), -EBUSY);
	fx_expect_in(fx, TOP "error", "when = idle");
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), -EBUSY);
	assert_int_equal(fx_put(fx, TOP "ctl", "checkpoint a\n"), -EBUSY);
	fx_expect_in(fx, "error", "python/demo: ");
	fake_exit(s, VM_DONE, 0);
	fx_mkdir(fx, TOP "jobs/j");
	fx_put(fx, TOP "jobs/j/in", "j");
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), -EBUSY);
	fx_expect_in(fx, TOP "error",
		     "cause: 1 job of the session goes on\n"
		     "fix: cat jobs/NAME/exit_code waits for one"); /* the state is idle */
	assert_false(s->saving);
	fake_job_exit(s, fake_job(s, 0), VM_DONE, 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
	assert_true(s->saving);
}

static void test_fresh_is_not_saved(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);

	fx_add(fx, TOP "config", "fresh = yes\n");
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), -EOPNOTSUPP);
	fx_expect_error(fx, "python/demo", "unsupported");
	assert_false(s->saving);
}

static void test_a_save_that_fails(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);
	struct file f;
	struct req *r;

	fx_put(fx, TOP "ctl", "sleep\n");
	fx_mkdir(fx, TOP "checkpoints/a");
	f = fx_opened(fx, TOP "checkpoints/a/wait", O_RDONLY);
	r = fx_read(fx, &f, 10, 0);
	assert_waits(r);
	assert_error(fx_read(fx, &f, 10, O_NONBLOCK), -EAGAIN);
	fx_put(fx, TOP "in", "y");
	fx_not_saved(s);
	assert_error(r, -EIO);
	fx_close(fx, &f);
	fx_expect(fx, TOP "state", "running\n"); /* it goes on */
	fx_expect_error(fx, "python/demo", "not-saved");
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "the disk is full");
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"state\": \"failed\"");
	assert_false(fx_exists(fx, TOP "checkpoints/a/files"));
	f = fx_opened(fx, TOP "events", O_RDONLY);
	r = fx_read(fx, &f, 65536, 0);
	assert_int_equal(r->kind, ANSWER_BUF);
	assert_non_null(strstr(r->data, "a failed: the disk is full"));
	fx_close(fx, &f);
	assert_int_equal(fx_put(fx, TOP "ctl", "restore a\n"), -ENOENT);
	fake_exit(s, VM_DONE, 0);
	fake_faults.save_err = -EOPNOTSUPP;
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/b"), 0);
	fx_expect_in(fx, TOP "checkpoints/b/status.json", "\"state\": \"failed\"");
	fx_expect(fx, TOP "state", "idle\n");
	fx_put(fx, TOP "in", "z");
	assert_string_equal(s->code, "z");
	fake_exit(s, VM_DONE, 0);
	/* The name is not lost, to him who says that he means a checkpoint. */
	fake_faults.save_err = 0;
	fx->conf.max_checkpoints = 2;
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/c"), -EDQUOT);
	assert_int_equal(fx_put(fx, TOP "ctl", "checkpoint a\n"), 0);
	fx_saved(s);
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"state\": \"whole\"");
	assert_int_equal(fx_put(fx, TOP "ctl", "checkpoint a\n"), -EEXIST);
	assert_string_equal(fx_ls(fx, TOP "checkpoints"), "b a ");
}

/* Its sandbox goes while it is being saved, in every way there is. */
static void test_no_sandbox_to_save_any_more(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);

	fx_mkdir(fx, TOP "checkpoints/a");
	fx_put(fx, TOP "ctl", "reset\n");
	assert_int_equal(s->nresets, 1);
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"state\": \"failed\"");
	fake_state(s, SANDBOX_READY);
	fx_mkdir(fx, TOP "checkpoints/b");
	fake_die(s, PROBLEM_OUT_OF_MEMORY);
	fx_expect_in(fx, TOP "checkpoints/b/status.json", "\"state\": \"failed\"");
	fx_expect(fx, TOP "state", "closed\n");
	fx_put(fx, TOP "ctl", "reset\n");
	fx_idle(fx);
	fx_put(fx, TOP "ctl", "sleep\n");
	fx_put(fx, TOP "ctl", "close\n");
	fx_expect(fx, TOP "state", "closed\n");
	fx_put(fx, TOP "ctl", "reset\n");
	fake_settle();
	s = fx_idle(fx);
	fx_put(fx, TOP "ctl", "sleep\n");
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	fx_saved(s); /* nobody wants it */
	assert_int_equal(fake_packs(), 0);
}

static void test_pause(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);

	fx_mkdir(fx, TOP "checkpoints/a");
	assert_int_equal(fx_put(fx, TOP "ctl", "pause\n"), -EBUSY);
	fx_saved(s);
}

/* It stays awake, as if it had been used. */
static void test_wake_while_it_falls_asleep(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_put(fx, TOP "config", "idle_timeout_s = 10\nidle = hibernate\n");
	s = fx_idle(fx);
	for (unsigned i = 0; i < 2; i++) {
		if (i)
			clock_advance(10000);
		else
			assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
		assert_true(s->saving);
		assert_int_equal(fx_put(fx, TOP "ctl", "wake\n"), 0);
		fx_saved(s);
		fx_expect(fx, TOP "state", "idle\n");
		clock_advance(9000);
		assert_false(s->saving);
		clock_advance(1000);
		assert_true(s->saving);
		fx_put(fx, TOP "ctl", "wake\n");
		fx_saved(s);
		fx_expect(fx, TOP "state", "idle\n");
	}
	assert_int_equal(fake_packs(), 0);
}

/* What is paused is so behind a checkpoint; or it is not, and that is said. */
static void test_paused(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);

	fake_freezes = true;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(fx_put(fx, TOP "ctl", "pause\n"), 0);
		fake_frozen(s, 0);
		fx_expect(fx, TOP "state", "paused\n");
		assert_int_equal(fx_mkdir(fx, i ? TOP "checkpoints/b" : TOP "checkpoints/a"), 0);
		fake_frozen(s, 0); /* as it was */
		fx_expect(fx, TOP "state", "paused\n");
		fx_expect(fx, TOP "error", "");
		fake_frozen(s, i ? -EBUSY : -ECANCELED);
		fx_expect(fx, TOP "state", "idle\n");
		fx_expect_error(fx, "python/demo", "not-paused");
		fx_expect_in(fx, TOP "error", "could not be stopped again while it was saved");
		fx_saved(s);
		fx_put(fx, TOP "in", "x");
		fake_exit(s, VM_DONE, 0);
	}
	fake_freezes = false;
}

/* A checkpoint that waits for a run that never begins. */
static void test_kill_of_what_is_queued(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_put(fx, TOP "config", "when = idle\n");
	fake_freezes = true;
	s = fx_idle(fx);
	assert_int_equal(fx_put(fx, TOP "ctl", "pause\n"), 0);
	fake_frozen(s, 0);
	fx_expect(fx, TOP "state", "paused\n");
	fx_put(fx, TOP "in", "y");
	assert_int_equal(fx_put(fx, TOP "ctl", "checkpoint c\n"), 0);
	assert_false(s->saving);
	assert_int_equal(fx_put(fx, TOP "ctl", "kill\n"), 0);
	assert_true(s->saving);
	fx_saved(s);
	/* The same of a job that was not sent yet. */
	for (unsigned i = 0; i < 2; i++) {
		fx_mkdir(fx, TOP "jobs/j");
		fx_put(fx, TOP "jobs/j/in", "y");
		assert_int_equal(fx_put(fx, TOP "ctl", i ? "checkpoint b\n" : "checkpoint a\n"), 0);
		assert_false(s->saving);
		if (i == 0)
			assert_int_equal(fx_put(fx, TOP "jobs/j/ctl", "kill\n"), 0);
		else
			assert_int_equal(fx_rmdir(fx, TOP "jobs/j"), 0);
		assert_true(s->saving);
		fx_saved(s);
		if (i == 0)
			assert_int_equal(fx_rmdir(fx, TOP "jobs/j"), 0);
	}
}

/* ---- idle ---- */

static void test_idle_hibernates(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_put(fx, TOP "config", "idle_timeout_s = 10\n");
	s = fx_idle(fx);
	clock_advance(9999);
	assert_false(s->saving);
	clock_advance(1);
	fx_saved(s);
	fx_expect(fx, TOP "state", "asleep\n");
	clock_advance(3600000);
	fx_expect(fx, TOP "state", "asleep\n");
}

/* By default, what can't be saved is closed; who wants it saved is told, and it goes on. */
static void test_idle_but_not_saved(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_put(fx, TOP "config", "idle_timeout_s = 10\n");
	s = fx_idle(fx);
	clock_advance(10000);
	fx_not_saved(s);
	fx_expect(fx, TOP "state", "closed\n");
	fx_expect_error(fx, "python/demo", "idle-timeout");
	fx_expect_in(fx, TOP "error", "the disk is full");
	fake_settle();
	fx_put(fx, TOP "ctl", "reset\n");
	fx_put(fx, TOP "config", "idle_timeout_s = 10\nidle = hibernate\n");
	s = fx_idle(fx);
	clock_advance(10000);
	fx_not_saved(s);
	fx_expect(fx, TOP "state", "idle\n");
	fx_expect_error(fx, "python/demo", "not-saved");
	clock_advance(10000);
	fx_saved(s);
	fx_expect(fx, TOP "state", "asleep\n");
}

/* Used while it is being saved, which fails. */
static void test_used_but_not_saved(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_put(fx, TOP "config", "idle_timeout_s = 10\n");
	s = fx_idle(fx);
	clock_advance(10000);
	assert_true(s->saving);
	assert_int_equal(fx_put(fx, TOP "in", "y"), 0);
	fx_not_saved(s);
	fx_expect(fx, TOP "state", "running\n");
}

/* Idle_timeout_s is over while a checkpoint is being saved. */
static void test_idle_behind_a_checkpoint(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_put(fx, TOP "config", "idle_timeout_s = 10\n");
	s = fx_idle(fx);
	clock_advance(9000);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	assert_true(s->saving);
	clock_advance(2000);
	fx_saved(s);
	clock_advance(3600000);
	assert_true(s->saving);
}

/* Memory that was saved knows no card. */
static void test_ports_come(void **state)
{
	struct fixture *fx = *state;

	fx_asleep(fx);
	assert_int_equal(fx_add(fx, TOP "config", "ports = 8080\n"), -EBUSY);
}

static void test_idle_of_processes_closes(void **state)
{
	struct fixture *fx = *state;

	fx->conf.limits.allow_process = true;
	assert_int_equal(fx_put(fx, TOP "config", "backend = process\nidle_timeout_s = 10\n"), 0);
	fx_idle(fx);
	clock_advance(10000);
	fx_expect(fx, TOP "state", "closed\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_sleep_and_wake),
		fx_test(test_words_of_a_wake),
		fx_test(test_code_wakes),
		fx_test(test_a_job_wakes),
		fx_test(test_reading_wakes_nothing),
		fx_test(test_a_wake_that_fails),
		fx_test(test_memory_that_does_not_fit),
		fx_test(test_what_was_saved_is_damaged),
		fx_test(test_kill_and_close_and_reset_of_a_sleeper),
		fx_test(test_reset_while_waking),
		fx_test(test_a_job_tells_of_its_wake),
		fx_test(test_flaws),
		fx_test(test_reset_is_no_loss),
		fx_test(test_removed_while_asleep),
		fx_test(test_settings_of_a_sleeper),
		fx_test(test_busy),
		fx_test(test_fresh_is_not_saved),
		fx_test(test_a_save_that_fails),
		fx_test(test_no_sandbox_to_save_any_more),
		fx_test(test_pause),
		fx_test(test_paused),
		fx_test(test_wake_while_it_falls_asleep),
		fx_test(test_idle_hibernates),
		fx_test(test_ports_come),
		fx_test(test_idle_behind_a_checkpoint),
		fx_test(test_reset_while_waking_fails),
		fx_test(test_used_but_not_saved),
		fx_test(test_kill_of_what_is_queued),
		fx_test(test_idle_but_not_saved),
		fx_test(test_idle_of_processes_closes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
