/* SPDX-License-Identifier: Apache-2.0 */
/* When a session is saved for those who wait for that (`when = idle`). */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <stdio.h>

#include "tests/unit/fixture/fixture.h"

#define TOP "python/demo/"

/* It is saved between two runs, and what comes meanwhile waits. */
static void test_when_idle(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");

	assert_int_equal(fx_put(fx, TOP "ctl", "checkpoint a when idle\n"), 0);
	fx_put(fx, TOP "in", "y");
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"state\": \"saving\"");
	assert_false(s->saving);
	fake_exit(s, VM_DONE, 0);
	assert_true(s->saving);
	fx_expect(fx, TOP "runs/2/state", "queued\n");
	fx_mkdir(fx, TOP "jobs/j");
	fx_put(fx, TOP "jobs/j/in", "j");
	assert_null(fake_job(s, 0));
	fx_saved(s);
	fx_expect(fx, TOP "runs/2/state", "running\n");
	assert_non_null(fake_job(s, 0));
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"state\": \"whole\"");
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"run\": 1,");
	fake_exit(s, VM_DONE, 0);
	fake_job_exit(s, fake_job(s, 0), VM_DONE, 0);

	assert_int_equal(fx_add(fx, TOP "config", "when = idle\n"), 0);
	fx_run(fx, "z");
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/b"), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
	fake_exit(s, VM_DONE, 0);
	fx_saved(s); /* both by one */
	assert_int_equal(s->nsaves, 2);
	fx_expect(fx, TOP "state", "asleep\n");
	fx_expect_in(fx, TOP "checkpoints/b/status.json", "\"state\": \"whole\"");
}

/* Jobs are waited for as well, and runs go on meanwhile. */
static void test_when_jobs_have_ended(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);

	fx_mkdir(fx, TOP "jobs/j");
	fx_put(fx, TOP "jobs/j/in", "j");
	assert_int_equal(fx_put(fx, TOP "ctl", "checkpoint a when idle\n"), 0);
	assert_false(s->saving);
	fx_put(fx, TOP "in", "y");
	assert_string_equal(s->code, "y");
	fake_job_exit(s, fake_job(s, 0), VM_DONE, 0);
	assert_false(s->saving);
	fake_exit(s, VM_DONE, 0);
	fx_saved(s);
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"run\": 2,");
}

/* What was asked for while it was being saved keeps it awake. */
static void test_used_while_it_falls_asleep(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);

	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
	fx_put(fx, TOP "in", "y");
	assert_int_equal(s->nruns, 1);
	fx_saved(s);
	fx_expect(fx, TOP "state", "running\n");
	assert_false(s->closing);
	assert_int_equal(fake_packs(), 0);
}

/* Whoever asks for it `when = idle` has it behind the runs that are there, also those that have woken it. */
static void test_sleep_behind_what_is_queued(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_asleep(fx);
	assert_int_equal(fx_put(fx, TOP "config", "when = idle\n"), 0);
	fx_put(fx, TOP "in", "y");
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
	s = fx_woken(fx);
	assert_string_equal(s->code, "y");
	fx_put(fx, TOP "in", "z");
	fake_exit(s, VM_DONE, 0);
	assert_string_equal(s->code, "z");
	fake_exit(s, VM_DONE, 0);
	fx_saved(s);
	fx_expect(fx, TOP "state", "asleep\n");
	/* One that comes while it is being saved, too. */
	fx_put(fx, TOP "ctl", "wake\n");
	s = fx_woken(fx);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
	fx_put(fx, TOP "in", "w");
	fx_saved(s);
	fx_expect(fx, TOP "state", "running\n");
	fake_exit(s, VM_DONE, 0);
	fx_saved(s);
	fx_expect(fx, TOP "state", "asleep\n");
}

static void expect_state_of(struct fixture *fx, const char *name, const char *is, unsigned run)
{
	char path[128], text[64];

	snprintf(path, sizeof(path), TOP "checkpoints/%s/status.json", name);
	snprintf(text, sizeof(text), "\"state\": \"%s\"", is);
	fx_expect_in(fx, path, text);
	snprintf(text, sizeof(text), "\"run\": %u,", run);
	if (run)
		fx_expect_in(fx, path, text);
}

/* The same of a checkpoint, however its session came to be starting; what is written later comes behind it. */
static void check_behind_what_is_queued(struct fixture *fx, unsigned first)
{
	struct sandbox *s;

	fx_put(fx, TOP "in", "y");
	fx_put(fx, TOP "in", "z");
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/now"), -EBUSY);
	assert_int_equal(fx_put(fx, TOP "ctl", "checkpoint both when idle\n"), 0);
	fx_put(fx, TOP "in", "w");
	assert_int_equal(fx_put(fx, TOP "ctl", "checkpoint three when idle\n"), 0);
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	assert_false(s->saving);
	assert_string_equal(s->code, "y");
	fake_exit(s, VM_DONE, 0);
	assert_string_equal(s->code, "z");
	fake_exit(s, VM_DONE, 0);
	assert_string_equal(s->code, "z");
	fx_saved(s);
	expect_state_of(fx, "both", "whole", first + 1);
	expect_state_of(fx, "three", "saving", 0);
	assert_string_equal(s->code, "w");
	fake_exit(s, VM_DONE, 0);
	fx_saved(s);
	expect_state_of(fx, "three", "whole", first + 2);
	assert_int_equal(s->nsaves, 2);
	assert_int_equal(fx_rmdir(fx, TOP "checkpoints/three"), 0);
}

static void test_checkpoint_behind_what_is_queued(void **state)
{
	struct fixture *fx = *state;

	check_behind_what_is_queued(fx, 1); /* the first sandbox that it has */
	assert_int_equal(fx_put(fx, TOP "ctl", "restore both\n"), 0);
	assert_int_equal(fx_rmdir(fx, TOP "checkpoints/both"), 0);
	check_behind_what_is_queued(fx, 4); /* going back */
	assert_int_equal(fx_rmdir(fx, TOP "checkpoints/both"), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
	fx_saved(fake_sandbox());
	fx_expect(fx, TOP "state", "asleep\n");
	check_behind_what_is_queued(fx, 7); /* waking up */
}

/* One of an awake session is, too, and who is not meant by a save that fails waits on. */
static void test_checkpoint_behind_another(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_put(fx, TOP "config", "checkpoint_runs = 2\nwhen = idle\n");
	s = fx_run(fx, "x");
	fx_put(fx, TOP "in", "y");
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
	fake_exit(s, VM_DONE, 0);
	fx_not_saved(s); /* run-1 */
	expect_state_of(fx, "run-1", "failed", 0);
	expect_state_of(fx, "a", "saving", 0);
	assert_string_equal(s->code, "y");
	fake_exit(s, VM_DONE, 0);
	fx_saved(s);
	assert_int_equal(s->nsaves, 2);
	expect_state_of(fx, "run-2", "whole", 2);
	expect_state_of(fx, "a", "whole", 2);
	fx_expect(fx, TOP "state", "asleep\n");
}

/* What is asked for while another one is saved is that one only if nothing waits that was written between. */
static void test_checkpoint_while_one_is_saved(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);

	assert_int_equal(fx_put(fx, TOP "ctl", "checkpoint a\n"), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "checkpoint b when idle\n"), 0);
	fx_put(fx, TOP "in", "y");
	assert_int_equal(fx_put(fx, TOP "ctl", "checkpoint c when idle\n"), 0);
	fx_saved(s);
	expect_state_of(fx, "a", "whole", 1);
	expect_state_of(fx, "b", "whole", 1);
	expect_state_of(fx, "c", "saving", 0);
	fake_exit(s, VM_DONE, 0);
	fx_saved(s);
	expect_state_of(fx, "c", "whole", 2);
}

/* A job that comes while it is being saved is waited for, as a run is. */
static void test_sleep_behind_a_job(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);

	assert_int_equal(fx_put(fx, TOP "config", "when = idle\n"), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
	fx_mkdir(fx, TOP "jobs/j");
	fx_put(fx, TOP "jobs/j/in", "j");
	fx_saved(s);
	fx_expect(fx, TOP "state", "idle\n");
	fake_job_exit(s, fake_job(s, 0), VM_DONE, 0);
	fx_saved(s);
	fx_expect(fx, TOP "state", "asleep\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_when_idle),
		fx_test(test_when_jobs_have_ended),
		fx_test(test_used_while_it_falls_asleep),
		fx_test(test_sleep_behind_what_is_queued),
		fx_test(test_checkpoint_behind_what_is_queued),
		fx_test(test_checkpoint_behind_another),
		fx_test(test_checkpoint_while_one_is_saved),
		fx_test(test_sleep_behind_a_job),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
