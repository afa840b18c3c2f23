/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that begin as a copy: `from` in their config. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <stdio.h>

#include "tests/unit/fixture/fixture.h"
#include "fs/session/fork.h"

#define TOP  "python/demo/"
#define COPY "python/copy/"

/* python/demo, and a session that is to be a copy. */
static struct sandbox *idle(struct fixture *fx)
{
	struct sandbox *s = fx_idle(fx);

	assert_int_equal(fx_mkdir(fx, "python/copy"), 0);
	return s;
}

/* The sandbox of the session that is a copy, which has begun from something. */
static struct sandbox *began(const char *name)
{
	struct sandbox *s = fake_sandbox();

	assert_string_equal(s->name, name);
	assert_true(s->from_memory);
	fake_state(s, SANDBOX_READY);
	return s;
}

static void test_of_one_that_is_idle(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s, *copy;

	fx_put(fx, TOP "config", "memory_mb = 256\nenv.A = b\ntimeout_s = 9\n");
	s = idle(fx);
	assert_int_equal(fx_put(fx, COPY "config", "from = demo\ntimeout_s = 5\n"), 0);
	fx_expect(fx, COPY "state", "asleep\n");
	fx_put(fx, COPY "in", "y"); /* it waits for what it is to be */
	fx_expect(fx, COPY "runs/1/state", "queued\n");
	assert_int_equal(fake_count(), 1);
	fx_put(fx, TOP "in", "x2"); /* so does the other, while it is saved */
	assert_string_equal(s->code, "x");
	fx_saved(s);
	assert_string_equal(s->code, "x2");
	copy = began("python-copy");
	assert_int_equal(copy->memory_mb, 256);
	assert_int_equal(copy->nenv, 1);
	assert_string_equal(copy->code, "y");
	assert_int_equal(copy->timeout_ms, 5000);
	fx_expect_in(fx, COPY "config", "from = demo\n");
	fx_expect_in(fx, COPY "status.json", "\"session\": \"python/demo\"");
	fx_expect_in(fx, TOP "status.json", "\"python/copy\"");
	fx_expect_in(fx, COPY "summary", "; a copy of demo, awake in ");
	fake_exit(copy, VM_DONE, 0);
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	fx_expect_in(fx, COPY "status.json", "\"session\": \"python/demo\"");
	fx_expect(fx, COPY "state", "idle\n");
	assert_int_equal(fake_packs(), 0);
}

/* What was read can be written back, as editors do, and says nothing new. */
static void test_config_written_back(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = idle(fx);
	const char *text;

	fx_put(fx, TOP "config", "env.A = b\n");
	assert_int_equal(fx_put(fx, COPY "config", "from = demo\n"), 0);
	fx_saved(s);
	text = fx_cat(fx, COPY "config");
	assert_int_equal(fx_put(fx, COPY "config", text), 0);
	assert_int_equal(fx_add(fx, COPY "config", "from = demo\ntimeout_s = 6\n"), 0);
	fx_expect_in(fx, COPY "config", "timeout_s = 6\n");
	assert_int_equal(fx_put(fx, COPY "config", "timeout_s = 6\n"), -EBUSY);
	assert_int_equal(fx_put(fx, COPY "config", "from = demo\nmemory_mb = 512\n"), -EBUSY);
	assert_int_equal(fx_put(fx, COPY "config", "from = other\n"), -EBUSY);
	fx_expect_error(fx, "python/copy", "frozen");
	fx_expect(fx, COPY "state", "asleep\n");
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *code;
		int err;
	} wrong[] = {
		{"from = other\n", "no-such-session", -EINVAL},
		{"from = copy\n", "no-such-session", -EINVAL},
		{"from = raw/demo\n", "no-such-session", -EINVAL},
		{"from = demo@x\n", "no-such-session", -EINVAL},
		{"from = a b\n", "invalid", -EINVAL},
		{"from = demo@\n", "invalid", -EINVAL},
		{"from = demo\nmemory_mb = 512\n", "frozen", -EINVAL},
		{"from = demo\nenv.A = b\n", "frozen", -EINVAL},
		{"from = demo\nnonsense = 1\n", "unknown-key", -EINVAL},
	};
	struct fixture *fx = *state;
	struct sandbox *s = idle(fx);

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_int_equal(fx_put(fx, COPY "config", wrong[i].text), wrong[i].err);
		fx_expect_error(fx, "python/copy", wrong[i].code);
		fx_expect(fx, COPY "state", "new\n");
	}
	assert_false(s->saving);
	fx_expect_in(fx, COPY "config", "from =\n");
	assert_int_equal(fx_put(fx, COPY "config", "from =\n"), 0);
	fx_expect(fx, COPY "error", "");
	assert_int_equal(fx_put(fx, COPY "config", "from = python/demo\n"), 0);
	fx_saved(s);
	fx_put(fx, COPY "in", "y");
	began("python-copy");
}

static void test_of_a_busy_one(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = idle(fx);

	fx_put(fx, TOP "in", "y");
	assert_int_equal(fx_put(fx, COPY "config", "from = demo\n"), -EBUSY);
	fx_expect_error(fx, "python/copy", "busy");
	fx_expect(fx, TOP "error", ""); /* it is none of that one's business */
	/* Line by line, as its `error` says, and as a shell writes. */
	assert_int_equal(fx_put(fx, COPY "config", "when = idle\n"), 0);
	assert_int_equal(fx_put(fx, COPY "config", "from = demo\n"),
			 -EBUSY); /* that takes it back */
	assert_int_equal(fx_put(fx, COPY "config", "when = idle\n"), 0);
	assert_int_equal(fx_add(fx, COPY "config", "from = demo\n"), 0);
	fx_put(fx, TOP "in", "z");
	assert_false(s->saving);
	fake_exit(s, VM_DONE, 0);
	fx_saved(s);
	assert_string_equal(s->code, "z");
	fx_put(fx, COPY "in", "y");
	began("python-copy");
}

/* It is one of what its writer had asked for by then, also where that is only waking up, and of nothing later. */
static void test_behind_what_is_queued(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_asleep(fx);
	assert_int_equal(fx_mkdir(fx, "python/copy"), 0);
	assert_int_equal(fx_mkdir(fx, "python/third"), 0);
	assert_int_equal(fx_mkdir(fx, "python/fourth"), 0);
	fx_put(fx, TOP "in", "y");
	assert_int_equal(fx_put(fx, COPY "config", "from = demo\n"), -EBUSY);
	assert_int_equal(fx_put(fx, COPY "config", "from = demo\nwhen = idle\n"), 0);
	fx_put(fx, TOP "in", "z");
	assert_int_equal(fx_put(fx, "python/third/config", "from = demo\nwhen = idle\n"), 0);
	assert_int_equal(fx_put(fx, "python/fourth/config", "from = copy\n"),
			 0); /* the same as that one */
	s = fx_woken(fx);
	assert_false(s->saving);
	assert_string_equal(s->code, "y");
	fake_exit(s, VM_DONE, 0);
	fx_saved(s);
	fx_expect_in(fx, COPY "status.json", "\"saved\": true");
	fx_expect_in(fx, "python/fourth/status.json", "\"saved\": true");
	fx_expect_in(fx, "python/third/status.json", "\"saved\": false");
	assert_string_equal(s->code, "z");
	fake_exit(s, VM_DONE, 0);
	fx_saved(s);
	fx_expect_in(fx, "python/third/status.json", "\"saved\": true");
	assert_int_equal(s->nsaves, 2);
}

/* Those who wait behind a run are not served by a save that fails before it, and all are told when nothing will come. */
static void test_behind_what_fails(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = idle(fx);

	assert_int_equal(fx_mkdir(fx, "python/third"), 0);
	fx_put(fx, TOP "in", "y");
	assert_int_equal(fx_put(fx, COPY "config", "from = demo\nwhen = idle\n"), 0);
	fx_put(fx, TOP "in", "z");
	assert_int_equal(fx_put(fx, "python/third/config", "from = demo\nwhen = idle\n"), 0);
	fake_exit(s, VM_DONE, 0);
	fx_not_saved(s);
	fx_expect(fx, COPY "state", "closed\n");
	fx_expect(fx, "python/third/state", "asleep\n");
	fake_die(s, PROBLEM_OUT_OF_MEMORY);
	fx_expect(fx, "python/third/state", "closed\n");
	fx_expect_error(fx, "python/third", "not-saved");
}

/* A session that has nothing has no copies. */
static void test_of_a_new_one(void **state)
{
	struct fixture *fx = *state;

	fx_mkdir(fx, "python/copy");
	assert_int_equal(fx_put(fx, COPY "config", "from = demo\n"), -EBUSY);
	fx_expect_error(fx, "python/copy", "busy");
}

static void test_of_a_sleeper(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = idle(fx);

	fx_put(fx, TOP "ctl", "sleep\n");
	fx_saved(s);
	fake_settle();
	assert_int_equal(fx_put(fx, COPY "config", "from = demo\n"), 0);
	assert_int_equal(fake_packs(), 2); /* the same */
	fx_put(fx, COPY "in", "y");
	began("python-copy");
	fx_expect(fx, TOP "state", "asleep\n"); /* it was not woken */
	fx_put(fx, TOP "in", "z");
	began("python-demo");
}

static void test_of_a_checkpoint(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = idle(fx);

	fx_mkdir(fx, TOP "checkpoints/x");
	assert_int_equal(fx_put(fx, COPY "config", "from = demo@x\n"),
			 0); /* which is being saved */
	fx_put(fx, COPY "in", "y");
	fx_saved(s);
	assert_int_equal(s->nsaves, 1);
	fake_exit(began("python-copy"), VM_DONE, 0);
	fx_put(fx, TOP "in", "busy");
	fx_mkdir(fx, "python/third");
	assert_int_equal(fx_put(fx, "python/third/config", "from = demo@x\n"), 0);
	fx_expect_in(fx, "python/third/status.json", "\"checkpoint\": \"x\"");
	assert_int_equal(fx_rmdir(fx, TOP "checkpoints/x"), 0);
	fx_put(fx, "python/third/in", "z");
	began("python-third");
	assert_int_equal(fake_packs(), 0);
}

/* Its memory knows no card, so that nothing would lead to a port. */
static void test_with_ports(void **state)
{
	struct fixture *fx = *state;

	idle(fx);
	assert_int_equal(fx_put(fx, COPY "config", "from = demo\nports = 8080\n"), -EBUSY);
	fx_expect_in(fx, COPY "error", "ports cannot be added");
	assert_int_equal(fx_put(fx, COPY "config", "from = demo\n"), 0);
	assert_int_equal(fx_add(fx, COPY "config", "ports = 8080\n"), -EBUSY);
}

/* Of a checkpoint that is being saved, behind which a run waits already. */
static void test_of_a_checkpoint_before_queued(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = idle(fx);

	fx_add(fx, TOP "config", "checkpoint_runs = 2\n");
	fx_put(fx, TOP "in", "a");
	fx_put(fx, TOP "in", "b");
	fake_exit(s, VM_DONE, 0);
	assert_true(s->saving);
	assert_int_equal(fx_put(fx, COPY "config", "from = demo@run-2\n"), 0);
	fx_put(fx, COPY "in", "y");
	fx_saved(s);
	assert_string_equal(s->code, "b");
	assert_int_equal(s->nsaves, 1);
	began("python-copy");
}

/* One that was to be a copy goes back to a checkpoint of its own. */
static void test_waiting_copy_restored(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx), *c;

	fx_checkpoint(fx, s, "a");
	fx_put(fx, TOP "ctl", "close\n");
	fake_settle();
	fx_mkdir(fx, "python/copy");
	fx_put(fx, COPY "in", "x");
	c = fake_sandbox();
	fake_state(c, SANDBOX_READY);
	fake_exit(c, VM_DONE, 0);
	assert_int_equal(fx_put(fx, TOP "config", "from = copy\n"), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "restore a\n"), 0);
	fx_expect_in(fx, TOP "status.json", "\"parent\": null");
}

/* A copy of a copy that has not begun yet. */
static void test_of_a_waiting_copy(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = idle(fx);

	fx_mkdir(fx, "python/third");
	assert_int_equal(fx_put(fx, COPY "config", "from = demo\n"), 0);
	assert_int_equal(fx_put(fx, "python/third/config", "from = copy\n"), 0);
	assert_int_equal(fx_put(fx, COPY "ctl", "wake\n"), 0);
	assert_int_equal(fx_put(fx, COPY "ctl", "reset\n"), -EBUSY);
	assert_int_equal(fx_rmdir(fx, "python/third"), 0);
	fx_saved(s);
	began("python-copy");
	fx_expect(fx, COPY "state", "idle\n");
}

/* ... and has runs: what it will be behind them is not known before it begins. */
static void test_of_a_waiting_copy_with_runs(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = idle(fx);

	fx_mkdir(fx, "python/third");
	assert_int_equal(fx_put(fx, COPY "config", "from = demo\n"), 0);
	fx_put(fx, COPY "in", "y");
	assert_int_equal(fx_put(fx, "python/third/config", "from = copy\nwhen = idle\n"), -EBUSY);
	fx_expect_error(fx, "python/third", "busy");
	fx_expect_in(fx, "python/third/error", "begin as a copy itself");
	fx_saved(s);
	s = began("python-copy");
	assert_int_equal(fx_put(fx, "python/third/config", "from = copy\nwhen = idle\n"), 0);
	fake_exit(s, VM_DONE, 0);
	fx_saved(s);
	fx_put(fx, "python/third/in", "z");
	began("python-third");
}

/* A copy that was to wake, and can't: what was asked of it does not wait for ever. */
static void test_copy_that_does_not_start(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = idle(fx);

	assert_int_equal(fx_put(fx, COPY "config", "from = demo\n"), 0);
	assert_int_equal(fx_put(fx, COPY "ctl", "wake\n"), 0);
	fx_put(fx, COPY "in", "y");
	fake_faults.new_err = -ENOMEM;
	fx_saved(s);
	fx_expect(fx, COPY "runs/1/state", "refused\n");
	fx_expect(fx, COPY "state", "asleep\n");
	fake_faults.new_err = 0;
	fx_put(fx, COPY "in", "z");
	assert_string_equal(began("python-copy")->code, "z");
}

/* What was to be copied is not saved, in every way there is. */
static void test_not_saved(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = idle(fx);

	assert_int_equal(fx_put(fx, COPY "config", "from = demo\n"), 0);
	fx_put(fx, COPY "in", "y");
	fx_not_saved(s);
	fx_expect(fx, COPY "state", "closed\n");
	fx_expect(fx, COPY "runs/1/state", "refused\n");
	fx_expect_error(fx, "python/copy", "not-saved");
	fx_expect_in(fx, COPY "error", "the disk is full");
	fx_expect(fx, TOP "state", "idle\n");
	assert_int_equal(fx_put(fx, COPY "config", "from = demo\n"), 0); /* once more */
	fake_die(s, PROBLEM_OUT_OF_MEMORY);
	fx_expect(fx, COPY "state", "closed\n");
	fx_put(fx, TOP "ctl", "reset\n");
	s = fx_run(fx, "x");
	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_put(fx, COPY "config", "from = demo\n"), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "close\n"), 0);
	fx_expect(fx, COPY "state", "closed\n");
	assert_int_equal(fx_put(fx, COPY "ctl", "reset\n"), 0);
	fx_expect_in(fx, COPY "config", "from =\n");
	fx_put(fx, COPY "in", "y");
	assert_null(fake_sandbox()->from);
}

/* The copy goes before there is anything. */
static void test_copy_removed(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = idle(fx);

	assert_int_equal(fx_put(fx, COPY "config", "from = demo\n"), 0);
	assert_int_equal(fx_put(fx, COPY "ctl", "close\n"), 0);
	fx_expect(fx, COPY "state", "closed\n");
	fx_saved(s);
	assert_int_equal(fake_packs(), 0);
	fx_expect(fx, COPY "state", "closed\n");
	assert_int_equal(fx_put(fx, COPY "config", "from = demo\n"), 0);
	assert_int_equal(fx_rmdir(fx, "python/copy"), 0);
	fx_saved(s);
	assert_int_equal(fake_packs(), 0);
}

/* What is to be copied stays until it is saved, or nobody wants that any more. */
static void test_source_removed(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = idle(fx);

	assert_int_equal(fx_put(fx, COPY "config", "from = demo\n"), 0);
	assert_int_equal(fx_rmdir(fx, "python/demo"), -EBUSY);
	fx_expect_error(fx, "python/demo", "busy");
	fx_expect_in(fx, TOP "error", "python/copy is not there yet");
	fx_saved(s);
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	fx_expect(fx, COPY "state", "asleep\n");
	fx_put(fx, COPY "in", "y");
	assert_non_null(began("python-copy"));
}

/* With fresh = yes, every run begins as that copy. */
static void test_fresh_copies(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = idle(fx);

	assert_int_equal(fx_put(fx, COPY "config", "from = demo\nfresh = yes\n"), 0);
	fx_saved(s);
	for (int i = 0; i < 3; i++) {
		fx_put(fx, COPY "in", "y");
		fake_exit(began("python-copy"), VM_DONE, 0);
		fake_settle();
		fx_expect(fx, COPY "state", "asleep\n");
	}
}

/* A port of this machine can be had once. */
static void test_ports(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_put(fx, TOP "config", "ports = 3000:80 8080\n");
	s = idle(fx);
	assert_int_equal(fx_put(fx, COPY "config", "from = demo\n"), 0);
	fx_saved(s);
	fx_expect_in(fx, COPY "config", "ports = 80 8080\n");
}

/* Whoever may write to both may copy, and nobody else. */
static void test_other_users(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = idle(fx);
	struct session *copy = session_find(fx->fs, 0, "copy");
	struct problem why;
	struct fork f;

	copy->uid = 1001;
	fx->fs->caller = 1001;
	assert_int_equal(fork_find(copy, "demo", &f, &why), -EPERM);
	fx->fs->caller = 1000;
	assert_int_equal(fork_find(copy, "demo", &f, &why), -EPERM);
	fx->fs->caller = 0;
	assert_int_equal(fork_find(copy, "demo", &f, &why), 0);
	copy->uid = 1000;
	assert_false(s->saving);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_of_one_that_is_idle),
		fx_test(test_config_written_back),
		fx_test(test_refused),
		fx_test(test_of_a_busy_one),
		fx_test(test_behind_what_is_queued),
		fx_test(test_behind_what_fails),
		fx_test(test_of_a_new_one),
		fx_test(test_of_a_sleeper),
		fx_test(test_of_a_checkpoint),
		fx_test(test_with_ports),
		fx_test(test_of_a_checkpoint_before_queued),
		fx_test(test_of_a_waiting_copy),
		fx_test(test_waiting_copy_restored),
		fx_test(test_of_a_waiting_copy_with_runs),
		fx_test(test_copy_that_does_not_start),
		fx_test(test_not_saved),
		fx_test(test_copy_removed),
		fx_test(test_source_removed),
		fx_test(test_fresh_copies),
		fx_test(test_ports),
		fx_test(test_other_users),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
