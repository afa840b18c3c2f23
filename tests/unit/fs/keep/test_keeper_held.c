/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping sessions: what records name that this mount does not write stays, until they are removed. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/vault_fake.c tests/unit/fixture/keeper_fixture.c vm/base/record.c vm/base/remove.c */
/* modules: fs/keep/aside.c fs/keep/policy.c fs/keep/code.c fs/keep/front.c fs/keep/job.c fs/keep/join.c fs/keep/lasting.c fs/keep/live.c fs/keep/output.c fs/keep/run.c fs/keep/replay.c fs/keep/revive.c fs/keep/session.c fs/keep/sound.c fs/keep/value.c vm/base/problem_record.c fs/keep/keeper.c fs/keep/keeper_held.c fs/keep/keeper_item.c fs/keep/keeper_write.c fs/keep/keeper_load.c fs/keep/keeper_removal.c fs/keep/keeper_end.c fs/keep/reserve.c fs/keep/store.c fs/keep/keeper_accounts.c */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/keep/keeper.h"
#include "fs/keep/keeper_internal.h"
#include "tests/unit/fixture/fixture.h"
#include "tests/unit/fixture/keeper_fixture.h"
#include "tests/unit/fixture/vault_fake.h"

#define TOP "python/demo/"

/* demo sleeps, and has a checkpoint from before; both are on the disk. Return: how many references there are to them. */
static unsigned sleeps(struct fixture *fx)
{
	struct sandbox *s;

	fx_put(fx, TOP "config", "memory_mb = 300\n");
	s = fx_run(fx, "one");
	fake_exit(s, VM_DONE, 0);
	fx_checkpoint(fx, s, "a");
	fx_put(fx, TOP "in", "two");
	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep"), 0);
	fake_saved(s, fake_saved_new(200, true), NULL);
	kf_written();
	kf_written();
	assert_int_equal(fake_vault_there(), 2);
	return fake_vault_held();
}

static bool has_record(const struct kf_next *n, const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/sessions/python/%s.rec", n->state, name);
	return access(path, F_OK) == 0;
}

static void remove_it(struct kf_next *n, const char *name)
{
	assert_true(has_record(n, name));
	session_destroy(kf_found(n, name));
	kf_written();
	assert_false(has_record(n, name));
}

/* It is shown as failed, and what was saved of it stays; with it that goes. */
static void expect_held(struct kf_next *n, unsigned before)
{
	assert_int_equal(kf_found(n, "demo")->state, SESSION_FAILED);
	kf_written();
	assert_int_equal(fake_vault_held(), before + 2);
	remove_it(n, "demo");
	assert_int_equal(fake_vault_held(), before);
}

static void test_not_allowed(void **data)
{
	struct fixture *fx = *data;
	const unsigned before = sleeps(fx), most = fx->conf.limits.max_memory_mb;
	struct kf_next n;

	fx->conf.limits.max_memory_mb = 256;
	kf_next_begin(&n, fx);
	expect_held(&n, before);
	kf_next_end(&n);
	fx->conf.limits.max_memory_mb = most;
	assert_int_equal(fake_vault_held(), before);
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_ASLEEP);
	assert_int_equal(fake_vault_held(), before + 2); /* by the session alone */
	kf_next_end(&n);
}

static void test_of_another_user(void **data)
{
	struct fixture *fx = *data;
	const unsigned before = sleeps(fx);
	struct kf_next n;

	fx->conf.allow_other = false;
	kf_next_begin(&n, fx);
	expect_held(&n, before);
	kf_next_end(&n);
	fx->conf.allow_other = true;
}

/* It is not even shown. */
static void test_without_template(void **data)
{
	struct fixture *fx = *data;
	const unsigned before = sleeps(fx);
	char *name = fx->conf.template[0].name;
	struct kf_next n;

	name[0] = 'x';
	kf_next_begin(&n, fx);
	name[0] = 'p';
	assert_null(session_find(n.fs, 0, "demo"));
	kf_written();
	assert_int_equal(fake_vault_held(), before + 2);
	kf_next_end(&n);
	assert_int_equal(fake_vault_held(), before);
}

static void spoil_in(const char *state, const char *name)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/sessions/python/%s.rec", state, name);
	f = fopen(path, "r+");
	assert_non_null(f);
	assert_int_equal(fseek(f, 60, SEEK_SET), 0);
	assert_int_equal(fwrite("\xff\xff\xff", 1, 3, f), 3);
	fclose(f);
}

static void spoil(const char *name)
{
	spoil_in(kf_state, name);
}

/* One that can't be read may be a copy of another, which has what was saved as well: that stays though the other goes. */
static void test_unread(void **data)
{
	struct fixture *fx = *data;
	const unsigned before = sleeps(fx);
	struct kf_next n;

	assert_int_equal(fx_mkdir(fx, "python/copy"), 0);
	kf_written();
	spoil("copy");
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "copy")->state, SESSION_FAILED);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_ASLEEP);
	remove_it(&n, "demo");
	assert_int_equal(fake_vault_held(), before + 2);
	remove_it(&n, "copy");
	assert_int_equal(fake_vault_held(), before);
	kf_next_end(&n);
}

/* What can't be listed can't be removed either. */
static void test_unlisted(void **data)
{
	struct fixture *fx = *data;
	const unsigned before = sleeps(fx);
	char path[256];
	struct kf_next n;

	snprintf(path, sizeof(path), "%s/sessions/other", kf_state);
	assert_int_equal(symlink("/nonexistent", path), 0);
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_ASLEEP);
	remove_it(&n, "demo");
	assert_int_equal(fake_vault_held(), before + 2);
	kf_next_end(&n);
	assert_int_equal(unlink(path), 0);
}

/* Who goes on has no session of that name, or one that can do nothing but be removed; or it writes the record itself. */
static void test_heir(void **data)
{
	struct fixture *fx = *data;
	const unsigned before = sleeps(fx);
	struct session *s;
	struct kf_next n;

	kf_next_open(&n, fx);
	keeper_wait(n.k);
	keeper_go(n.k);
	assert_null(session_find(n.fs, 0, "demo"));
	kf_written();
	assert_int_equal(fake_vault_held(), before + 2);
	kf_next_end(&n);
	assert_int_equal(fake_vault_held(), before);
	for (unsigned damaged = 0; damaged < 2; damaged++) {
		kf_next_open(&n, fx);
		keeper_wait(n.k);
		assert_int_equal(session_revive(n.fs, 0, "demo", fx->fs->uid, NULL, &s), 0);
		s->on_disk.damaged = damaged;
		keeper_go(n.k);
		kf_written();
		assert_int_equal(fake_vault_held(), before + 2 * damaged);
		remove_it(&n, "demo");
		assert_int_equal(fake_vault_held(), before);
		kf_next_end(&n);
	}
}

/* What the daemon before has left behind is looked for by who goes on, once all that is named has references; so not if a record
 * can't be read, or what it names, or not all are known. At the start of a mount that is done another way. */
static void test_heir_looks(void **data)
{
	enum { ALL, UNREAD, NOT_LISTED, OTHER_KEY, OTHER_VERSION, OTHERS };
	struct fixture *fx = *data;
	const unsigned before = sleeps(fx);
	char path[256];
	struct kf_next n;

	assert_int_equal(fake_vault_searches(), 0);
	snprintf(path, sizeof(path), "%s/sessions/other", kf_state);
	for (unsigned what = ALL; what < OTHERS; what++) {
		if (what == NOT_LISTED)
			assert_int_equal(symlink("/nonexistent", path), 0);
		fake_vault_is_foreign(what == OTHER_KEY	      ? -EKEYREJECTED
				      : what == OTHER_VERSION ? -EPROTONOSUPPORT
							      : 0);
		kf_next_open(&n, fx);
		if (what == UNREAD)
			spoil_in(n.state, "demo");
		keeper_wait(n.k);
		assert_int_equal(fake_vault_searches(), what > ALL);
		keeper_go(n.k);
		kf_written();
		assert_int_equal(fake_vault_searches(), 1);
		assert_int_equal(fake_vault_held_then(), before + 2);
		kf_next_end(&n);
		if (what == NOT_LISTED)
			assert_int_equal(unlink(path), 0);
	}
	fake_vault_is_foreign(0);
	kf_next_begin(&n, fx);
	assert_int_equal(fake_vault_searches(), 1);
	kf_next_end(&n);
}

/* What a session names that the daemon before was removing has no references in who goes on. It is forgotten behind the record. */
static void test_heir_removes(void **data)
{
	const struct store_name of = {.template = "python", .name = "demo"};
	struct fixture *fx = *data;
	struct session *s;
	char path[256], in[300];
	struct kf_next n;
	unsigned forgets;

	(void)sleeps(fx);
	kf_next_open(&n, fx);
	snprintf(path, sizeof(path), "%s/sessions/python/demo.rec", n.state);
	snprintf(in, sizeof(in), "%s/x", path);
	assert_int_equal(unlink(path), 0); /* it can't be removed for now */
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(mkdir(in, 0700), 0);
	keeper_wait(n.k);
	assert_int_equal(keeper_remove(n.k, &of, 1), 0);
	forgets = fake_vault_forgets();
	keeper_go(n.k);
	kf_written();
	assert_int_equal(session_create(n.fs, 0, "other", fx->fs->uid, fx->fs->gid, &s), 0);
	kf_written();
	assert_true(has_record(&n, "other"));
	assert_int_equal(fake_vault_searches(), 1);
	assert_int_equal(fake_vault_forgets(), forgets);
	assert_int_equal(rmdir(in), 0);
	assert_int_equal(rmdir(path), 0);
	kf_written();
	assert_true(fake_vault_forgets() > forgets);
	kf_next_end(&n);
}

/* A new session has the name: its record is there instead, and nothing names what the other one did. */
static void test_name_is_taken(void **data)
{
	struct fixture *fx = *data;
	const unsigned before = sleeps(fx);
	struct session *s;
	char left[256];
	struct kf_next n;

	kf_next_open(&n, fx);
	snprintf(left, sizeof(left), "%s/sessions/python/demo.1-1.out", n.state);
	assert_int_equal(mkdir(left, 0700), 0);
	keeper_wait(n.k);
	keeper_go(n.k);
	kf_written();
	assert_int_equal(fake_vault_held(), before + 2);
	assert_int_equal(session_create(n.fs, 0, "demo", fx->fs->uid, fx->fs->gid, &s), 0);
	kf_written();
	assert_int_equal(s->on_disk.err, 0);
	assert_int_equal(fake_vault_held(), before);
	assert_int_equal(access(left, F_OK), -1);
	kf_next_end(&n);
}

/* At the end one could not be written. What it names on the disk is not forgotten for that others could, later. */
static void test_end_unwritten(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s;
	char path[256], in[300];
	unsigned forgets;

	(void)sleeps(fx);
	assert_int_equal(fx_mkdir(fx, "python/other"), 0);
	fx_put(fx, "python/other/in", "one");
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	fake_exit(s, VM_DONE, 0);
	kf_written();
	assert_int_equal(fx_mkdir(fx, "python/other/checkpoints/b"), 0);
	fake_saved(s, fake_saved_new(100, true), NULL);
	assert_int_equal(fake_vault_storing(), 1);
	assert_int_equal(fx_rmdir(fx, TOP "checkpoints/a"), 0);
	snprintf(path, sizeof(path), "%s/sessions/python/demo.rec", kf_state);
	snprintf(in, sizeof(in), "%s/x", path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(mkdir(in, 0700), 0);
	forgets = fake_vault_forgets();
	keeper_end(fx->fs->keeper, true, kf_on_over, NULL);
	kf_written();
	kf_written();
	assert_true(kf_over);
	assert_int_not_equal(fx_demo(fx)->on_disk.err, 0);
	assert_int_equal(session_find(fx->fs, 0, "other")->on_disk.err, 0);
	assert_int_equal(fake_vault_there(), 3);
	assert_int_equal(fake_vault_forgets(), forgets);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_not_allowed, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_of_another_user, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_without_template, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_unread, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_unlisted, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_heir, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_heir_looks, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_heir_removes, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_name_is_taken, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_end_unwritten, kf_setup, kf_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
