/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping sessions: how the end of a mount puts them to sleep. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/vault_fake.c tests/unit/fixture/keeper_fixture.c vm/base/record.c vm/base/remove.c */
/* modules: fs/keep/aside.c fs/keep/policy.c fs/keep/code.c fs/keep/front.c fs/keep/job.c fs/keep/join.c fs/keep/lasting.c fs/keep/live.c fs/keep/output.c fs/keep/run.c fs/keep/replay.c fs/keep/revive.c fs/keep/session.c fs/keep/sound.c fs/keep/value.c vm/base/problem_record.c fs/keep/keeper.c fs/keep/keeper_held.c fs/keep/keeper_item.c fs/keep/keeper_load.c fs/keep/keeper_removal.c fs/keep/keeper_end.c fs/keep/keeper_write.c fs/keep/reserve.c fs/keep/store.c fs/keep/keeper_accounts.c */
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/keep/keeper.h"
#include "fs/keep/keeper_internal.h"
#include "fs/session/job.h"
#include "fs/tree/nodes.h"
#include "tests/unit/fixture/fixture.h"
#include "tests/unit/fixture/keeper_fixture.h"
#include "tests/unit/fixture/vault_fake.h"

#define TOP "python/demo/"

/* ---- tests ---- */

/* Who is in a hurry does not wait for a run that was interrupted. */
static void test_end_in_a_hurry(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *busy = fx_run(fx, "for long");

	keeper_end(fx->fs->keeper, false, kf_on_over, NULL);
	clock_advance(11000);
	assert_int_equal(busy->signals[SANDBOX_INTERRUPT], 1);
	assert_int_equal(busy->signals[SANDBOX_KILL], 0);
	keeper_end(fx->fs->keeper, false, kf_on_over, NULL);
	assert_int_equal(busy->signals[SANDBOX_KILL], 1);
	fake_exit(busy, VM_KILLED, 137);
	clock_advance(100);
	fake_saved(busy, fake_saved_new(10, true), NULL);
	kf_written();
	assert_true(kf_over);
}

static void test_end(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *idle = fx_run(fx, "one"), *busy;
	struct kf_next n;

	fake_exit(idle, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, "python/busy"), 0);
	fx_put(fx, "python/busy/in", "for long");
	busy = fake_sandbox();
	fake_state(busy, SANDBOX_READY);
	fx_put(fx, "python/busy/in", "never");
	keeper_end(fx->fs->keeper, false, kf_on_over, NULL);
	clock_advance(100);
	assert_true(idle->saving);
	fake_saved(idle, fake_saved_new(10, true), NULL);
	fx_expect(fx, TOP "state", "asleep\n");
	fx_expect(fx, "python/busy/runs/2/state", "refused\n");
	assert_int_equal(fx_put(fx, "python/busy/in", "nor that"), -ESTALE);
	assert_false(busy->saving);
	clock_advance(9000);
	assert_int_equal(busy->signals[SANDBOX_INTERRUPT], 0);
	clock_advance(2000);
	assert_int_equal(busy->signals[SANDBOX_INTERRUPT], 1);
	assert_int_equal(busy->signals[SANDBOX_KILL], 0);
	clock_advance(4000);
	assert_int_equal(busy->signals[SANDBOX_KILL], 1);
	fake_exit(busy, VM_KILLED, 137);
	clock_advance(100);
	assert_true(busy->saving);
	fake_saved(busy, fake_saved_new(10, true), NULL);
	assert_false(kf_over);
	kf_written();
	assert_true(kf_over);
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_ASLEEP);
	assert_int_equal(kf_found(&n, "busy")->state, SESSION_ASLEEP);
	assert_int_equal(session_run(kf_found(&n, "busy"), 1)->state, RUN_KILLED);
	kf_next_end(&n);
	kf_over = true;
}

/* It was told to sleep behind a run that begins no more. */
static void test_end_of_a_late_sleeper(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_idle(fx);

	fake_freezes = true;
	fx_put(fx, TOP "config", "when = idle\n");
	fx_put(fx, TOP "ctl", "pause\n");
	fake_frozen(s, 0);
	fx_put(fx, TOP "in", "y");
	fx_put(fx, TOP "ctl", "sleep\n");
	assert_false(s->saving);
	keeper_end(fx->fs->keeper, false, kf_on_over, NULL);
	clock_advance(100);
	assert_true(s->saving);
	fx_saved(s);
	fx_expect(fx, TOP "state", "asleep\n");
	kf_written();
	assert_true(kf_over);
}

/* Who does not even end when killed is closed, and what ran is lost to nobody: it is said. */
static void test_end_without_answer(void **data)
{
	struct fixture *fx = *data;
	struct kf_next n;

	fx_run(fx, "for ever");
	keeper_end(fx->fs->keeper, false, kf_on_over, NULL);
	for (int i = 0; i < 60 && !kf_over; i++) {
		clock_advance(1000);
		clock_work();
		fake_vault_stores(0);
	}
	assert_true(kf_over);
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_CLOSED);
	assert_int_equal(problem_kept(&kf_found(&n, "demo")->front.error)->code, PROBLEM_NOT_KEPT);
	assert_true(run_ended(session_run(kf_found(&n, "demo"), 1)));
	kf_next_end(&n);
	kf_over = true;
}

/* A session is removed, whose checkpoint is on its way to the disk still when the last record is written. */
static void test_end_lets_go(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	unsigned forgets;

	fake_exit(s, VM_DONE, 0);
	kf_written();
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	fake_saved(s, fake_saved_new(100, true), NULL);
	assert_int_equal(fake_vault_storing(), 1);
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	keeper_end(fx->fs->keeper, false, kf_on_over, NULL);
	for (int i = 0; i < 4; i++) {
		clock_advance(2000);
		clock_work();
	}
	assert_false(kf_is_there("demo"));
	assert_false(kf_over);
	forgets = fake_vault_forgets();
	fake_vault_stores(0);
	clock_advance(100);
	clock_work();
	assert_true(kf_over);
	assert_true(fake_vault_forgets() > forgets);
}

/* But where a record could not be removed, what it names stays. */
static void test_end_leaves(void **data)
{
	struct fixture *fx = *data;
	char path[256], in[300];
	unsigned forgets;

	assert_int_equal(fx_mkdir(fx, "python/gone"), 0);
	kf_written();
	snprintf(path, sizeof(path), "%s/sessions/python/gone.rec", kf_state);
	snprintf(in, sizeof(in), "%s/x", path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(mkdir(in, 0700), 0);
	forgets = fake_vault_forgets();
	assert_int_equal(fx_rmdir(fx, "python/gone"), 0);
	keeper_end(fx->fs->keeper, false, kf_on_over, NULL);
	kf_written();
	assert_true(kf_over);
	assert_true(kf_is_there("gone"));
	assert_false(keeper_kept_all(fx->fs->keeper)); /* it comes back */
	assert_int_equal(fake_vault_forgets(), forgets);
}

/* What there is no room for is not saved again and again; why that is lost is said now, and behind the next mount. */
static void test_end_without_room(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	struct kf_next n;

	fake_exit(s, VM_DONE, 0);
	fx->conf.saved_bytes = 1000;
	keeper_end(fx->fs->keeper, false, kf_on_over, NULL);
	clock_advance(100);
	assert_true(s->saving);
	fake_saved(s, fake_saved_new(100, true), NULL);
	clock_advance(100);
	assert_int_equal(s->nsaves, 1);
	assert_true(s->closing);
	kf_written();
	assert_true(kf_over);
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_CLOSED);
	assert_int_equal(problem_kept(&kf_found(&n, "demo")->front.error)->code, PROBLEM_NOT_KEPT);
	assert_non_null(strstr(problem_kept(&kf_found(&n, "demo")->front.error)->cause,
			       "are lost (what is saved of this user's sessions would take"));
	kf_next_end(&n);
	kf_over = true;
}

/* What has failed before is no reason for what fails at the end. */
static void test_end_has_its_own_reason(void **data)
{
	static const struct problem old = {.code = PROBLEM_NOT_SAVED, .cause = "an old reason"};
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	fake_saved(s, NULL, &old);
	fx_expect_error(fx, "python/demo", "not-saved");
	keeper_end(fx->fs->keeper, true, kf_on_over, NULL);
	kf_written();
	assert_true(kf_over);
	assert_int_equal(fx_demo(fx)->state, SESSION_CLOSED);
	assert_non_null(strstr(problem_kept(&fx_demo(fx)->closed)->cause, "are lost"));
	assert_null(strstr(problem_kept(&fx_demo(fx)->closed)->cause, "an old reason"));
}

/* A save that has failed has been tried for as long as that can help: the mount does not wait for another one. */
static void test_end_not_saved(void **data)
{
	static const struct problem deep = {.code = PROBLEM_NOT_SAVED, .cause = "too deep"};
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");

	fake_exit(s, VM_DONE, 0);
	keeper_end(fx->fs->keeper, false, kf_on_over, NULL);
	clock_advance(100);
	assert_true(s->saving);
	fake_saved(s, NULL, &deep);
	clock_advance(100);
	assert_int_equal(s->nsaves, 1);
	assert_true(s->closing);
	kf_written();
	assert_true(kf_over);
	assert_int_equal(fx_demo(fx)->state, SESSION_CLOSED);
	assert_non_null(strstr(problem_kept(&fx_demo(fx)->closed)->cause, "are lost (too deep)"));
}

/* But what it lacks, others may have: when they have gone it is tried again. */
static void test_end_saves_behind_others(void **data)
{
	static const struct problem lack = {.code = PROBLEM_NOT_SAVED,
					    .cause = "too many open files"};
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one"), *other;

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, "python/other"), 0);
	fx_put(fx, "python/other/in", "two");
	other = fake_sandbox();
	fake_state(other, SANDBOX_READY);
	fake_exit(other, VM_DONE, 0);
	keeper_end(fx->fs->keeper, false, kf_on_over, NULL);
	clock_advance(100);
	assert_true(s->saving && other->saving);
	fake_saved(s, NULL, &lack);
	clock_advance(500);
	assert_false(s->closing || s->saving);
	fake_saved(other, fake_saved_new(10, true), NULL);
	clock_advance(100);
	assert_true(s->saving);
	fake_saved(s, fake_saved_new(10, true), NULL);
	fx_expect(fx, TOP "state", "asleep\n");
	kf_written();
	assert_true(kf_over);
	assert_true(keeper_kept_all(fx->fs->keeper));
}

enum { MANY = 20, FEW = 6 };

/* A record that is being written has a descriptor, and there may be few. */
static void test_end_with_few_descriptors(void **data)
{
	struct fixture *fx = *data;
	const int next = dup(STDERR_FILENO);
	struct rlimit was, few;
	char name[32];

	assert_true(next > 0);
	close(next);
	kf_written();
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "python/s%u", i);
		assert_int_equal(fx_mkdir(fx, name), 0);
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	few = (struct rlimit){(rlim_t)next + FEW, was.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	keeper_end(fx->fs->keeper, false, kf_on_over, NULL);
	kf_written();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_true(kf_over);
	assert_true(keeper_kept_all(fx->fs->keeper));
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		assert_true(kf_is_there(name));
	}
}

/* What slept before is that again; why it could not be saved is said all the same. */
static void test_end_back_says_why(void **data)
{
	static const struct problem deep = {.code = PROBLEM_NOT_SAVED, .cause = "too deep"};
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	const char *cause;
	struct kf_next n;

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep"), 0);
	fake_saved(s, fake_saved_new(100, true), NULL);
	kf_written();
	fx_put(fx, TOP "in", "two");
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	fake_exit(s, VM_DONE, 0);
	keeper_end(fx->fs->keeper, false, kf_on_over, NULL);
	clock_advance(100);
	fake_saved(s, NULL, &deep);
	clock_advance(100);
	kf_written();
	assert_true(kf_over);
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_ASLEEP);
	cause = problem_kept(&kf_found(&n, "demo")->front.error)->cause;
	assert_non_null(strstr(cause, "as it was when it fell asleep at"));
	assert_non_null(strstr(cause, "is lost (too deep)"));
	kf_next_end(&n);
	kf_over = true;
}

static void expect_asleep(struct fixture *fx, struct sandbox *s)
{
	clock_advance(100);
	assert_false(s->closing);
	assert_true(s->saving);
	fake_saved(s, fake_saved_new(10, true), NULL);
	kf_written();
	assert_true(kf_over);
	assert_int_equal(fx_demo(fx)->state, SESSION_ASLEEP);
}

/* What could not begin is tried again: another one may have made room meanwhile. */
static void test_end_tries_what_did_not_begin(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");

	fake_exit(s, VM_DONE, 0);
	fake_faults.save_err = -EDQUOT;
	keeper_end(fx->fs->keeper, false, kf_on_over, NULL);
	clock_advance(300);
	fake_faults.save_err = 0;
	expect_asleep(fx, s);
}

/* ... and why it could not is said, if there is no more time. */
static void test_end_says_what_did_not_begin(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");

	fake_exit(s, VM_DONE, 0);
	fake_faults.save_err = -EDQUOT;
	keeper_end(fx->fs->keeper, false, kf_on_over, NULL);
	for (int i = 0; i < 200 && !s->closing; i++)
		clock_advance(100);
	fake_faults.save_err = 0;
	kf_written();
	assert_true(kf_over);
	assert_int_equal(fx_demo(fx)->state, SESSION_CLOSED);
	assert_non_null(strstr(problem_kept(&fx_demo(fx)->closed)->cause,
			       "are lost (the memory of as many machines"));
}

/* A user who resets the interpreter meanwhile has lost no files. */
static void test_end_reset(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");

	fake_exit(s, VM_DONE, 0);
	keeper_end(fx->fs->keeper, false, kf_on_over, NULL);
	clock_advance(100);
	assert_true(s->saving);
	assert_int_equal(fx_put(fx, TOP "ctl", "reset"), 0);
	s->saving = false; /* as a sandbox that is reset */
	fake_state(s, SANDBOX_READY);
	expect_asleep(fx, s);
}

/* A save that was under way when the mount ended was none of the end's. */
static void test_end_of_an_older_save(void **data)
{
	static const struct problem late = {.code = PROBLEM_NOT_SAVED, .cause = "it took too long"};
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	keeper_end(fx->fs->keeper, false, kf_on_over, NULL);
	clock_advance(100);
	fake_saved(s, NULL, &late);
	expect_asleep(fx, s);
}

/* ... nor was that of one that nobody used. */
static void test_end_while_it_falls_asleep(void **data)
{
	static const struct problem busy = {.code = PROBLEM_NOT_SAVED, .cause = "it is busy"};
	struct fixture *fx = *data;
	struct sandbox *s;

	fx_put(fx, TOP "config", "idle_timeout_s = 10\n");
	s = fx_run(fx, "one");
	fake_exit(s, VM_DONE, 0);
	clock_advance(10000);
	assert_true(s->saving);
	keeper_end(fx->fs->keeper, false, kf_on_over, NULL);
	clock_advance(100);
	fake_saved(s, NULL, &busy);
	expect_asleep(fx, s);
}

/* A checkpoint that the disk has no room for is no reason why there is none for what it sleeps with. */
static void test_end_stores_what_it_can(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	struct kf_next n;

	fake_exit(s, VM_DONE, 0);
	kf_written();
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	fake_saved(s, fake_saved_new(300, true), NULL);
	assert_int_equal(fake_vault_storing(), 1);
	keeper_end(fx->fs->keeper, false, kf_on_over, NULL);
	clock_advance(100);
	fake_saved(s, fake_saved_new(100, true), NULL);
	for (int i = 0; i < 10 && !fx->fs->keeper->flushed; i++) {
		clock_advance(50);
		clock_work();
	}
	assert_int_equal(fake_vault_storing(), 1);
	for (int i = 0; i < 10 && !kf_over; i++) {
		fake_vault_stores_but(checkpoint_find(fx_demo(fx), "a")->saved, -ENOSPC);
		clock_advance(100);
		clock_work();
	}
	assert_true(kf_over);
	assert_false(keeper_kept_all(fx->fs->keeper));
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_ASLEEP);
	assert_int_equal(saved_bytes(kf_found(&n, "demo")->asleep.saved), 1100);
	assert_int_equal(checkpoint_find(kf_found(&n, "demo"), "a")->state, CHECKPOINT_FAILED);
	kf_next_end(&n);
	kf_over = true;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_end_in_a_hurry, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_end, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_end_of_a_late_sleeper, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_end_without_answer, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_end_lets_go, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_end_leaves, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_end_without_room, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_end_has_its_own_reason, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_end_not_saved, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_end_saves_behind_others, kf_setup,
						kf_teardown),
		cmocka_unit_test_setup_teardown(test_end_with_few_descriptors, kf_setup,
						kf_teardown),
		cmocka_unit_test_setup_teardown(test_end_back_says_why, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_end_tries_what_did_not_begin, kf_setup,
						kf_teardown),
		cmocka_unit_test_setup_teardown(test_end_says_what_did_not_begin, kf_setup,
						kf_teardown),
		cmocka_unit_test_setup_teardown(test_end_reset, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_end_of_an_older_save, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_end_while_it_falls_asleep, kf_setup,
						kf_teardown),
		cmocka_unit_test_setup_teardown(test_end_stores_what_it_can, kf_setup, kf_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
