/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping sessions: checkpoints, and what they are asleep with, go to the vault before a record names them. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/vault_fake.c tests/unit/fixture/keeper_fixture.c vm/base/record.c vm/base/remove.c */
/* modules: fs/keep/aside.c fs/keep/policy.c fs/keep/code.c fs/keep/front.c fs/keep/job.c fs/keep/join.c fs/keep/lasting.c fs/keep/live.c fs/keep/output.c fs/keep/run.c fs/keep/replay.c fs/keep/revive.c fs/keep/session.c fs/keep/sound.c fs/keep/value.c vm/base/problem_record.c fs/keep/keeper.c fs/keep/keeper_held.c fs/keep/keeper_item.c fs/keep/keeper_write.c fs/keep/keeper_load.c fs/keep/keeper_removal.c fs/keep/keeper_end.c fs/keep/reserve.c fs/keep/store.c fs/keep/keeper_accounts.c */
#include <errno.h>

#include "fs/keep/keeper.h"
#include "fs/session/binding.h"
#include "tests/unit/fixture/fixture.h"
#include "tests/unit/fixture/keeper_fixture.h"
#include "tests/unit/fixture/vault_fake.h"
#include "vm/base/util.h"

#define TOP "python/demo/"

/* What is saved is named when it is on the disk, and not before. */
static void test_saved(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	struct kf_next n;

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	fake_saved(s, fake_saved_new(100, true), NULL);
	clock_advance(2000);
	clock_work();
	assert_int_equal(fake_vault_storing(), 1);
	assert_false(keeper_may_yield(fx->fs->keeper));
	kf_next_begin(&n, fx);
	assert_int_equal(checkpoint_find(kf_found(&n, "demo"), "a")->state, CHECKPOINT_FAILED);
	kf_next_end(&n);
	kf_written();
	assert_int_equal(fake_vault_there(), 1);
	kf_next_begin(&n, fx);
	assert_int_equal(checkpoint_find(kf_found(&n, "demo"), "a")->state, CHECKPOINT_WHOLE);
	kf_next_end(&n);
	assert_true(keeper_may_yield(fx->fs->keeper));
	/* One that can't be stored is told, and is there as long as the mount; and is tried again, however often the record is written. */
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/b"), 0);
	fake_saved(s, fake_saved_new(100, true), NULL);
	clock_advance(2000);
	clock_work();
	fx_expect_in(fx, TOP "checkpoints/b/status.json", "\"state\": \"saving\"");
	fake_vault_stores(-ENOSPC);
	fx_expect_error(fx, "python/demo", "not-kept");
	fx_expect_in(fx, TOP "checkpoints/b/status.json", "\"state\": \"whole\"");
	for (int i = 0; i < 5; i++) {
		clock_advance(6000);
		clock_work();
		assert_int_equal(fx_demo(fx)->on_disk.err, -ENOSPC);
		assert_int_equal(fake_vault_storing(), 1);
		assert_int_equal(fx_mkdir(fx, i % 2 ? "python/a" : "python/b"), 0);
		fake_vault_stores(-ENOSPC);
		clock_advance(6000);
		clock_work();
		assert_int_equal(fx_demo(fx)->on_disk.err, -ENOSPC);
		assert_int_equal(fx_rmdir(fx, i % 2 ? "python/a" : "python/b"), 0);
	}
	kf_written();
	kf_written();
	assert_int_equal(fake_vault_there(), 2);
	assert_int_equal(fx_demo(fx)->on_disk.err, 0);
	kf_next_begin(&n, fx);
	assert_int_equal(checkpoint_find(kf_found(&n, "demo"), "b")->state, CHECKPOINT_WHOLE);
	kf_next_end(&n);
}

/* It has run something, and sleeps, on the disk. */
static void sleeps(struct fixture *fx)
{
	struct sandbox *s = fx_run(fx, "one");

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep"), 0);
	fake_saved(s, fake_saved_new(100, true), NULL);
	kf_written();
}

/* Until it has fallen asleep again, a session that is awake is kept as it was before, and that is told. */
static void test_awake(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s;
	struct kf_next n;

	sleeps(fx);
	assert_int_equal(fake_vault_there(), 1);
	fx_put(fx, TOP "in", "two");
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	fake_exit(s, VM_DONE, 0);
	kf_written();
	assert_int_equal(fake_vault_there(), 1);
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_ASLEEP);
	assert_non_null(kf_found(&n, "demo")->asleep.saved);
	assert_non_null(strstr(problem_kept(&kf_found(&n, "demo")->front.error)->cause,
			       "as it was when it fell asleep at"));
	assert_int_equal(session_run(kf_found(&n, "demo"), 2)->state, RUN_DONE);
	kf_next_end(&n);
	/* Not before the other one is on the disk is the first one gone. */
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep"), 0);
	fake_saved(s, fake_saved_new(200, true), NULL);
	clock_advance(1100);
	clock_work();
	assert_int_equal(fake_vault_storing(), 1);
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_ASLEEP);
	assert_int_equal(saved_bytes(kf_found(&n, "demo")->asleep.saved), 1100);
	kf_next_end(&n);
	kf_written();
	assert_null(fx_demo(fx)->asleep.before);
	kf_next_begin(&n, fx);
	assert_int_equal(fake_vault_there(), 1);
	assert_int_equal(saved_bytes(kf_found(&n, "demo")->asleep.saved), 1200);
	assert_int_equal(problem_kept(&kf_found(&n, "demo")->front.error)->code, PROBLEM_NONE);
	kf_next_end(&n);
	/* A session that is closed has nothing to go back to. */
	fx_put(fx, TOP "in", "three");
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	fake_exit(s, VM_DONE, 0);
	kf_written();
	assert_int_equal(fx_put(fx, TOP "ctl", "close"), 0);
	kf_written();
	assert_null(fx_demo(fx)->asleep.before);
	kf_next_begin(&n, fx);
	assert_int_equal(fake_vault_there(), 0);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_CLOSED);
	kf_next_end(&n);
}

/* What sleeps on the disk became something else that can't be stored yet: until then it is kept as it was. */
static void goes_back(struct fixture *fx)
{
	struct kf_next n;

	for (int i = 0; i < 3; i++) {
		clock_advance(6000);
		clock_work();
		fake_vault_stores(-ENOSPC);
	}
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_ASLEEP);
	assert_int_equal(saved_bytes(kf_found(&n, "demo")->asleep.saved), 1100);
	assert_true(saved_has_memory(kf_found(&n, "demo")->asleep.saved));
	assert_non_null(strstr(problem_kept(&kf_found(&n, "demo")->front.error)->cause,
			       "as it was when it fell asleep at"));
	kf_next_end(&n);
}

static void goes_on(struct fixture *fx, bool memory)
{
	struct kf_next n;

	kf_written();
	kf_written();
	assert_null(fx_demo(fx)->asleep.before);
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_ASLEEP);
	assert_true(saved_has_memory(kf_found(&n, "demo")->asleep.saved) == memory);
	assert_int_equal(problem_kept(&kf_found(&n, "demo")->front.error)->code, PROBLEM_NONE);
	kf_next_end(&n);
}

static void test_reset_asleep(void **data)
{
	struct fixture *fx = *data;

	sleeps(fx);
	assert_int_equal(fx_put(fx, TOP "ctl", "reset"), 0);
	goes_back(fx);
	goes_on(fx, false);
}

/* The files that go on without their memory are damaged on the disk: the session is kept all the same, without them. */
static void test_reset_of_what_is_damaged(void **data)
{
	struct fixture *fx = *data;
	struct kf_next n;

	sleeps(fx);
	assert_int_equal(fx_put(fx, TOP "ctl", "reset"), 0);
	fx_demo(fx)->asleep.saved->damaged = true;
	fx_demo(fx)->asleep.before->damaged = true; /* these are its files */
	clock_advance(1100);
	clock_work();
	fake_vault_stores(-EBADMSG);
	assert_int_equal(fx_demo(fx)->state, SESSION_CLOSED);
	assert_non_null(strstr(problem_kept(&fx_demo(fx)->front.error)->fix,
			       "echo reset > ctl gives the session a new sandbox"));
	assert_null(strstr(problem_kept(&fx_demo(fx)->front.error)->fix, "restore"));
	kf_written();
	assert_int_equal(fx_demo(fx)->on_disk.err, 0);
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_ASLEEP);
	assert_int_equal(problem_kept(&kf_found(&n, "demo")->front.error)->code, PROBLEM_DAMAGED);
	assert_int_equal(session_run(kf_found(&n, "demo"), 1)->state, RUN_DONE);
	kf_next_end(&n);
}

/* Those from before are whole: it goes back to them, and says what was lost. */
static void test_reset_of_what_alone_is_damaged(void **data)
{
	struct fixture *fx = *data;
	const struct problem *why;

	sleeps(fx);
	assert_int_equal(fx_put(fx, TOP "ctl", "reset"), 0);
	fx_demo(fx)->asleep.saved->damaged = true;
	clock_advance(1100);
	clock_work();
	fake_vault_stores(-EBADMSG);
	assert_int_equal(fx_demo(fx)->state, SESSION_ASLEEP);
	assert_true(saved_has_memory(fx_demo(fx)->asleep.saved));
	why = problem_kept(&fx_demo(fx)->front.error);
	assert_non_null(strstr(why->cause, "was to go on with can't be read from state_dir: it is "
					   "as it was when it fell asleep at"));
	assert_null(strstr(why->cause, "xsbxfs ended"));
}

/* What can't be read any more stays on the disk: the next mount tries it again, and as long as there is one the record names it. */
static void test_damaged_stays(void **data)
{
	struct fixture *fx = *data;
	struct kf_next n;

	sleeps(fx);
	fx_demo(fx)->asleep.saved->damaged = true;
	fx_put(fx, TOP "in", "two");
	fake_die(fake_sandbox(), PROBLEM_NOT_RESTORED);
	fake_die(fake_sandbox(), PROBLEM_NOT_RESTORED);
	assert_int_equal(fx_demo(fx)->state, SESSION_CLOSED);
	kf_written();
	kf_next_begin(&n, fx);
	assert_int_equal(fake_vault_there(), 1);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_ASLEEP);
	assert_true(saved_has_memory(kf_found(&n, "demo")->asleep.saved));
	assert_non_null(strstr(problem_kept(&kf_found(&n, "demo")->front.error)->cause,
			       "can't be read from state_dir"));
	kf_next_end(&n);
	assert_int_equal(fx_put(fx, TOP "ctl", "reset"), 0);
	kf_written();
	kf_next_begin(&n, fx);
	assert_int_equal(fake_vault_there(), 0);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_NEW);
	kf_next_end(&n);
}

static void spoils(struct fixture *fx, bool damaged)
{
	struct saved *of[] = {fx_demo(fx)->asleep.saved, checkpoint_find(fx_demo(fx), "a")->saved};

	for (size_t i = 0; i < ARRAY_SIZE(of); i++)
		of[i]->headless = of[i]->damaged = damaged;
}

/* Not even what is known of it can be read. It stays all the same, from mount to mount. */
static void test_headless_stays(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	struct checkpoint *cp;
	struct timespec since;
	struct kf_next n;

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	fake_saved(s, fake_saved_new(200, true), NULL);
	kf_written();
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep"), 0);
	fake_saved(s, fake_saved_new(100, true), NULL);
	kf_written();
	spoils(fx, true);
	since = fx_demo(fx)->asleep.since;
	kf_next_begin(&n, fx);
	assert_int_equal(fake_vault_there(), 2);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_CLOSED);
	assert_int_equal(kf_found(&n, "demo")->asleep.before_since.tv_sec, since.tv_sec);
	assert_non_null(strstr(problem_kept(&kf_found(&n, "demo")->closed)->cause,
			       "can't be read from state_dir: it is damaged"));
	cp = checkpoint_find(kf_found(&n, "demo"), "a");
	assert_int_equal(checkpoint_shown(kf_found(&n, "demo"), cp), CHECKPOINT_FAILED);
	kf_next_writes(&n, "demo");
	kf_next_end(&n);
	spoils(fx, false);
	kf_next_begin(&n, fx);
	assert_int_equal(fake_vault_there(), 2);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_ASLEEP);
	assert_int_equal(saved_bytes(kf_found(&n, "demo")->asleep.saved), 1100);
	assert_int_equal(kf_found(&n, "demo")->asleep.since.tv_sec, since.tv_sec);
	cp = checkpoint_find(kf_found(&n, "demo"), "a");
	assert_int_equal(checkpoint_shown(kf_found(&n, "demo"), cp), CHECKPOINT_WHOLE);
	assert_int_equal(saved_bytes(cp->saved), 1200);
	/* It is awake: that it can't be read is over. */
	assert_int_equal(problem_kept(&kf_found(&n, "demo")->front.error)->code, PROBLEM_DAMAGED);
	assert_int_equal(binding_start(kf_found(&n, "demo")), 0);
	fake_state(fake_sandbox(), SANDBOX_READY);
	assert_int_equal(problem_kept(&kf_found(&n, "demo")->front.error)->code, PROBLEM_NONE);
	kf_next_end(&n);
}

static void test_restored_asleep(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	fake_saved(s, fake_saved_new(200, true), NULL);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep"), 0);
	fake_saved(s, fake_saved_new(100, true), NULL);
	for (int i = 0; i < 3; i++) {
		clock_advance(6000);
		clock_work();
		fake_vault_stores_but(checkpoint_find(fx_demo(fx), "a")->saved, -ENOSPC);
	}
	assert_int_equal(fx_put(fx, TOP "ctl", "restore a"), 0);
	goes_back(fx);
	goes_on(fx, true);
}

/* What is gone of a checkpoint whose settings are not allowed is that checkpoint, and not the session. */
static void test_gone_and_not_allowed(void **data)
{
	struct fixture *fx = *data;
	struct checkpoint *cp;
	struct problem why;
	struct kf_next n;

	kf_checkpoint_not_allowed(fx);
	vault_keep(NULL, NULL, 0);
	kf_next_begin(&n, fx);
	assert_false(kf_found(&n, "demo")->on_disk.damaged);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_NEW);
	cp = checkpoint_find(kf_found(&n, "demo"), "a");
	assert_int_equal(cp->state, CHECKPOINT_FAILED);
	assert_true(checkpoint_problem(kf_found(&n, "demo"), cp, &why));
	assert_non_null(strstr(why.cause, "can't be had: it is not there"));
	kf_next_end(&n);
}

/* Nor is one that failed, which has nothing to stay. */
static void test_failed_and_not_allowed(void **data)
{
	static const struct problem full = {.code = PROBLEM_NOT_SAVED, .cause = "no room"};
	struct fixture *fx = *data;
	struct checkpoint *cp;
	struct sandbox *s;
	struct kf_next n;

	fx_put(fx, TOP "config", "memory_mb = 300\n");
	s = fx_run(fx, "one");
	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	fake_saved(s, NULL, &full);
	assert_int_equal(fx_put(fx, TOP "ctl", "close\nreset\n"), 0);
	fx_put(fx, TOP "config", "memory_mb = 200\n");
	kf_written();
	fx->conf.limits.max_memory_mb = 256;
	kf_next_begin(&n, fx);
	assert_false(kf_found(&n, "demo")->on_disk.damaged);
	cp = checkpoint_find(kf_found(&n, "demo"), "a");
	assert_int_equal(cp->state, CHECKPOINT_FAILED);
	assert_int_equal(problem_kept(&cp->problem)->code, PROBLEM_NOT_SAVED);
	kf_next_end(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_saved, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_awake, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_reset_asleep, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_reset_of_what_is_damaged, kf_setup,
						kf_teardown),
		cmocka_unit_test_setup_teardown(test_reset_of_what_alone_is_damaged, kf_setup,
						kf_teardown),
		cmocka_unit_test_setup_teardown(test_damaged_stays, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_headless_stays, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_restored_asleep, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_gone_and_not_allowed, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_failed_and_not_allowed, kf_setup, kf_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
