/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: made, restored, limited, and made by themselves. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <stdio.h>

#include "tests/unit/fixture/fixture.h"

#define TOP "python/demo/"

static void test_checkpoints(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);
	struct stat st;

	fx_checkpoint(fx, s, "a");
	fx_expect(fx, TOP "checkpoints/a/wait", "whole\n");
	assert_string_equal(fx_ls(fx, TOP "checkpoints"), "a ");
	assert_string_equal(fx_ls(fx, TOP "checkpoints/a"), "status.json wait files error ");
	assert_int_equal(fx_stat(fx, TOP "checkpoints/a", &st), 0);
	assert_int_equal(st.st_size, 1100);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), -EEXIST);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/.a"), -EINVAL);
	fx_expect_in(fx, TOP "status.json", "\"checkpoints\": [");
	fx_expect(fx, TOP "state", "idle\n");
	assert_false(s->closing);
	assert_int_equal(fx_rmdir(fx, TOP "checkpoints/a"), 0);
	assert_int_equal(fake_packs(), 0);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/b"), 0);
	assert_int_equal(fx_rmdir(fx, TOP "checkpoints/b"), 0); /* it is being saved */
	fx_saved(s);
	assert_int_equal(fake_packs(), 0);
	assert_string_equal(fx_ls(fx, TOP "checkpoints"), "");
}

/* Of a sleeper, it is what it has. */
static void test_checkpoint_of_a_sleeper(void **state)
{
	struct fixture *fx = *state;

	fx_asleep(fx);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"state\": \"whole\"");
	assert_int_equal(fake_alive(), 0);
	fx_put(fx, TOP "ctl", "wake\n");
	fx_woken(fx);
	assert_int_equal(fake_packs(), 2);
}

static void test_restore(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);

	fx_checkpoint(fx, s, "a");
	fx_run(fx, "y");
	assert_int_equal(fx_put(fx, TOP "ctl", "restore a\n"), -EBUSY);
	fake_exit(s, VM_DONE, 3);
	assert_int_equal(fx_put(fx, TOP "ctl", "restore b\n"), -ENOENT);
	fx_expect_error(fx, "python/demo", "no-such-checkpoint");
	assert_int_equal(fx_put(fx, TOP "ctl", "restore a\n"), 0);
	assert_true(s->closing);
	fx_expect(fx, TOP "state", "asleep\n");
	fx_expect(fx, TOP "error", "");
	fx_expect(fx, TOP "exit_code", "3\n"); /* what has happened, has */
	assert_int_equal(fx_rmdir(fx, TOP "checkpoints/a"), 0);
	fx_put(fx, TOP "in", "z");
	s = fx_woken(fx);
	assert_string_equal(s->code, "z");
	fx_expect(fx, TOP "runs/3/state", "running\n");
	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/c"), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "restore c\n"), -EBUSY); /* it is being saved */
	fx_saved(s);
	/* So is another one: behind a run that makes one, the state is idle. */
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/d"), 0);
	fx_expect(fx, TOP "state", "idle\n");
	assert_int_equal(fx_put(fx, TOP "ctl", "restore c\n"), -EBUSY);
	fx_expect(fx, TOP "error",
		  "code: busy\ncause: a checkpoint is being saved: d\n"
		  "fix: cat checkpoints/d/wait waits until it is.\n");
	assert_int_equal(fx_put(fx, TOP "ctl", "reset\n"), 0);
	fx_expect_in(fx, TOP "checkpoints/d/error", "the session was reset\n");
}

/* On the disk, which nobody knows before it is read. Then nothing good is given up for it. */
static void test_one_that_is_damaged(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);

	fx_checkpoint(fx, s, "a");
	checkpoint_find(fx_demo(fx), "a")->saved->damaged = true;
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"state\": \"failed\"");
	fx_expect_in(fx, TOP "checkpoints/a/error", "code: damaged\n");
	fx_expect_in(fx, TOP "summary", "; checkpoints/a failed\n");
	assert_int_equal(fx_put(fx, TOP "ctl", "restore a\n"), -ENOENT);
	fx_expect_in(fx, TOP "error", "there is nothing of the checkpoint \"a\"");
	fx_expect(fx, TOP "state", "idle\n");
	assert_int_equal(fx_mkdir(fx, "python/copy"), 0);
	assert_int_equal(fx_put(fx, "python/copy/config", "from = demo@a\n"), -EINVAL);
	assert_int_equal(fx_put(fx, TOP "ctl", "checkpoint a\n"), 0); /* anew */
	fx_saved(s);
	fx_expect(fx, TOP "checkpoints/a/error", "");
	assert_int_equal(fx_put(fx, TOP "ctl", "restore a\n"), 0);
}

/* It keeps its name, so that what went wrong can be read; `ctl` begins it anew, but never one that is whole. */
static void test_one_that_has_failed(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);
	struct stat before, st;

	assert_int_equal(fx_stat(fx, TOP "summary", &before), 0);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	fx_expect(fx, TOP "checkpoints/a/error", "");
	fx_not_saved(s);
	assert_string_equal(fx_ls(fx, TOP "checkpoints"), "a ");
	assert_string_equal(fx_ls(fx, TOP "checkpoints/a"), "status.json wait error ");
	fx_expect(fx, TOP "checkpoints/a/error",
		  "code: not-saved\ncause: the disk is full\n"
		  "fix: Again: echo checkpoint a > ctl; or rmdir, then mkdir.\n");
	fx_expect_in(fx, TOP "summary", "; checkpoints/a failed\n");
	assert_int_equal(fx_stat(fx, TOP "summary", &st), 0);
	assert_true(time_compare(&st.st_mtim, &before.st_mtim) > 0);
	fx_expect_in(fx, TOP "status.json", "\"checkpoints_failed\": [\n    \"a\"\n  ]");
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), -EEXIST); /* as the kernel says it */
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/b"), 0);
	fx_not_saved(s);
	fx_expect_in(fx, TOP "summary", "; 2 checkpoints failed, the last: checkpoints/b\n");
	assert_int_equal(fx_put(fx, TOP "ctl", "checkpoint a\n"), 0);
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"state\": \"saving\"");
	fx_saved(s);
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"state\": \"whole\"");
	fx_expect_in(fx, TOP "summary", "; checkpoints/b failed\n");
	assert_int_equal(fx_put(fx, TOP "ctl", "checkpoint a\n"), -EEXIST);
	assert_int_equal(fx_rmdir(fx, TOP "checkpoints/b"), 0);
	fx_expect_in(fx, TOP "status.json", "\"checkpoints_failed\": []");
	fx_expect_in(fx, TOP "summary", "nothing on stderr\n");
}

/* Also of one that has died; and it is again what it was made with. */
static void test_restore_of_a_closed_one(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);

	fx_checkpoint(fx, s, "a");
	fake_die(s, PROBLEM_OUT_OF_MEMORY);
	fx_put(fx, TOP "ctl", "reset\n");
	fx_put(fx, TOP "config", "memory_mb = 512\ntimeout_s = 5\n");
	assert_int_equal(fx_put(fx, TOP "ctl", "restore a\n"), 0);
	fx_put(fx, TOP "in", "z");
	assert_int_equal(fx_woken(fx)->memory_mb, 192);
	fx_expect_in(fx, TOP "config", "timeout_s = 5\n"); /* which fits any machine */
}

/* Ports that came since lead to a card, which memory that was saved without one does not know. */
static void test_restore_behind_ports(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);

	fx_checkpoint(fx, s, "a");
	fx_put(fx, TOP "ctl", "close\n");
	fake_settle();
	assert_int_equal(fx_add(fx, TOP "config", "ports = 8080\n"), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "restore a\n"), 0);
	fx_put(fx, TOP "in", "z");
	assert_false(fx_woken(fx)->network);
	fx_expect_in(fx, TOP "config", "\nports =\n");
}

static void test_limits(void **state)
{
	static const char *const names[] = {"a", "b", "c", "d"};
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);

	for (unsigned i = 0; i < 4; i++)
		fx_checkpoint(fx, s, names[i]);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/e"), -EDQUOT);
	fx_expect_error(fx, "python/demo", "too-many");
	assert_int_equal(fx_rmdir(fx, TOP "checkpoints/d"), 0);
	fx->conf.checkpoint_bytes = 4000;
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/e"), 0);
	fx_saved(s); /* four of 1100 */
	fx_expect_in(fx, TOP "checkpoints/e/status.json", "too-much-saved");
	fx_expect_in(fx, TOP "error", "would take 1 MiB, and may take 0\n");
	fx_expect_error(fx, "python/demo", "too-much-saved");
	assert_int_equal(fx_rmdir(fx, TOP "checkpoints/e"), 0);
	fx->conf.checkpoint_bytes = 3300;
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/e"), -EDQUOT); /* it is full */
	fx->conf.checkpoint_bytes = 1 << 20;
	fx->conf.saved_bytes = 4000; /* of all of the user's sessions */
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
	fx_saved(s);
	fx_expect(fx, TOP "state", "idle\n");
	fx_expect_error(fx, "python/demo", "too-much-saved");
	assert_int_equal(fx_rmdir(fx, TOP "checkpoints/a"), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
	fx_saved(s);
	fx_expect(fx, TOP "state", "asleep\n");
}

/* Where it is known that there is no room for one, there is none, not one that has failed. */
static void test_limit_of_a_user(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);

	fx_checkpoint(fx, s, "a");
	fx->conf.saved_bytes = 1100;
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/b"), -EDQUOT);
	fx_expect_error(fx, "python/demo", "too-much-saved");
	fx_expect_in(fx, TOP "error", "this user");
	assert_string_equal(fx_ls(fx, TOP "checkpoints"), "a ");
	fx->conf.saved_bytes = 1101; /* what it takes is not known before it is there */
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/b"), 0);
	fx_saved(s);
	fx_expect_in(fx, TOP "checkpoints/b/status.json", "\"state\": \"failed\"");
}

/* Of a sleeper it is known, and several share it. */
static void test_limits_of_a_sleeper(void **state)
{
	struct fixture *fx = *state;
	uint64_t bytes;

	fx_asleep(fx);
	bytes = saved_bytes(fx_demo(fx)->asleep.saved);
	fx->conf.saved_bytes = fx->conf.checkpoint_bytes = bytes;
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/b"), 0);
	fx->conf.checkpoint_bytes = bytes - 1;
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/c"), -EDQUOT);
	assert_string_equal(fx_ls(fx, TOP "checkpoints"), "a b ");
}

/* What decides whether memory is restored can be seen before it is tried, also with KVM. */
static void test_needs(void **state)
{
	static const char
		emulated[] =
			"kernel 11\ninitrd 22\nrootfs 33\npackages none\nqemu 7.2.22\n-cpu\nmax\n",
		kvm[] = "kernel 1\nqemu 10\nmodel name\t: A \x01\xff CPU\nflags\t\t: fpu\n";
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);
	struct session *demo = fx_demo(fx);

	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"machine\": null");
	fx_saved(s);
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"machine\": null");
	saved_describe(checkpoint_find(demo, "a")->saved, emulated, strlen(emulated));
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"qemu\": \"7.2.22\"");
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"kernel\": \"11\"");
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"initrd\": \"22\"");
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"rootfs\": \"33\"");
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"packages\": \"none\"");
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"processor\": \"emulated\"");
	fx_checkpoint(fx, s, "b");
	saved_describe(checkpoint_find(demo, "b")->saved, kvm, strlen(kvm));
	fx_expect_in(fx, TOP "checkpoints/b/status.json", "\"processor\": \"A    CPU\"");
	fx_expect_in(fx, TOP "checkpoints/b/status.json", "\"qemu\": \"10\"");
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"qemu\": \"7.2.22\"");
}

static void test_automatic_ones(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_put(fx, TOP "config", "checkpoint_runs = 2\n");
	s = fx_run(fx, "x");
	for (int i = 0; i < 3; i++) {
		fx_put(fx, TOP "in", "y");
		fake_exit(s, VM_DONE, 0);
		fx_saved(s); /* before the next run begins */
		assert_int_equal(s->nruns, i + 2);
	}
	assert_string_equal(fx_ls(fx, TOP "checkpoints"), "run-2 run-3 ");
	fx_expect_in(fx, TOP "checkpoints/run-3/status.json", "\"run\": 3,");
	fx_expect_in(fx, TOP "checkpoints/run-3/status.json", "\"automatic\": true");
	fake_exit(s, VM_DONE, 0);
	fx_not_saved(s);
	assert_string_equal(fx_ls(fx, TOP "checkpoints"), "run-3 run-4 ");
	fx_run(fx, "z");
	fake_exit(s, VM_DONE, 0);
	fx_saved(s);
	assert_string_equal(fx_ls(fx, TOP "checkpoints"), "run-3 run-5 ");
}

/* Beside those that somebody has made there is less room, and the newest is there all the same. */
static void test_automatic_ones_beside_others(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);

	fx_checkpoint(fx, s, "a");
	fx_checkpoint(fx, s, "b");
	fx_put(fx, TOP "config", "checkpoint_runs = 3\n"); /* of four in all */
	for (int i = 0; i < 3; i++) {
		fx_run(fx, "y");
		fake_exit(s, VM_DONE, 0);
		fx_saved(s);
	}
	assert_string_equal(fx_ls(fx, TOP "checkpoints"), "a b run-3 run-4 ");
	fx_expect(fx, TOP "error", "");
}

/* The user's own has such a name: it stays, so does what would have made room, and the session says what is missing. */
static void test_name_of_an_automatic_one(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_put(fx, TOP "config", "checkpoint_runs = 1\n");
	s = fx_run(fx, "x");
	fake_exit(s, VM_DONE, 0);
	fx_saved(s);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/run-2"), 0);
	fx_saved(s);
	fx_run(fx, "y");
	fake_exit(s, VM_DONE, 0);
	assert_string_equal(fx_ls(fx, TOP "checkpoints"), "run-1 run-2 ");
	fx_expect_in(fx, TOP "error", "checkpoints/run-2 was not made: there is one of that name");
	fx_expect_in(fx, TOP "checkpoints/run-2/status.json", "\"automatic\": false");
}

/* A run that ended with its sandbox leaves no state. */
static void test_no_automatic_one_without_a_sandbox(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_put(fx, TOP "config", "checkpoint_runs = 2\n");
	s = fx_run(fx, "x");
	fake_die(s, PROBLEM_AGENT_LOST);
	assert_string_equal(fx_ls(fx, TOP "checkpoints"), "");
}

/* A run that was refused has not changed anything, and is not what was run last. */
static void test_no_automatic_one_of_a_refused_run(void **state)
{
	const struct vm_result refused = {.outcome = VM_REFUSED,
					  .problem = {.code = PROBLEM_NO_INTERPRETER}};
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_put(fx, TOP "config", "checkpoint_runs = 1\n");
	s = fx_run(fx, "x");
	fake_exit(s, VM_DONE, 0);
	fx_saved(s);
	fx_run(fx, "y");
	fake_result(s, &refused);
	assert_string_equal(fx_ls(fx, TOP "checkpoints"), "run-1 ");
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/mine"), 0);
	fx_saved(s);
	fx_expect_in(fx, TOP "checkpoints/mine/status.json", "\"run\": 1,");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_checkpoints),
		fx_test(test_checkpoint_of_a_sleeper),
		fx_test(test_one_that_has_failed),
		fx_test(test_one_that_is_damaged),
		fx_test(test_restore),
		fx_test(test_restore_of_a_closed_one),
		fx_test(test_restore_behind_ports),
		fx_test(test_limits),
		fx_test(test_limit_of_a_user),
		fx_test(test_limits_of_a_sleeper),
		fx_test(test_needs),
		fx_test(test_automatic_ones),
		fx_test(test_automatic_ones_beside_others),
		fx_test(test_name_of_an_automatic_one),
		fx_test(test_no_automatic_one_without_a_sandbox),
		fx_test(test_no_automatic_one_of_a_refused_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
