/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping sessions: when they are written, what the next mount finds. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/vault_fake.c tests/unit/fixture/keeper_fixture.c vm/base/record.c vm/base/remove.c */
/* modules: fs/keep/aside.c fs/keep/policy.c fs/keep/code.c fs/keep/front.c fs/keep/job.c fs/keep/join.c fs/keep/lasting.c fs/keep/live.c fs/keep/output.c fs/keep/run.c fs/keep/replay.c fs/keep/revive.c fs/keep/session.c fs/keep/sound.c fs/keep/value.c vm/base/problem_record.c fs/keep/keeper.c fs/keep/keeper_held.c fs/keep/keeper_item.c fs/keep/keeper_write.c fs/keep/keeper_load.c fs/keep/keeper_removal.c fs/keep/keeper_end.c fs/keep/reserve.c fs/keep/store.c fs/keep/keeper_accounts.c */
#include <errno.h>
#include <stdio.h>
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

static void test_written(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s;
	struct kf_next n;

	/* Nothing in the first moment, and not for every change. */
	assert_int_equal(fx_mkdir(fx, "python/new"), 0);
	assert_false(kf_is_there("new"));
	kf_written();
	assert_true(kf_is_there("new"));
	s = fx_run(fx, "one");
	fake_output(s, VM_STDOUT, "out");
	fake_exit(s, VM_DONE, 3);
	kf_written();
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "new")->state, SESSION_NEW);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_CLOSED);
	assert_int_equal(session_run(kf_found(&n, "demo"), 1)->result.status, 3);
	kf_next_end(&n);
	assert_int_equal(fx_rmdir(fx, "python/new"), 0);
	kf_written();
	assert_false(kf_is_there("new"));
	assert_true(fake_vault_forgets() > 0);
}

/* A daemon that dies before it has removed something leaves that to its heir. */
static void test_removal(void **data)
{
	struct fixture *fx = *data;
	struct buf fields = {0}, bad = {0};
	struct touch *removal;
	char rec[256];
	struct kf_next n;
	uint64_t id;

	assert_int_equal(fx_mkdir(fx, "python/new"), 0);
	kf_written();
	assert_null(fx->fs->keeping->next_removal(fx->fs, NULL));
	assert_int_equal(fx_rmdir(fx, "python/new"), 0);
	removal = fx->fs->keeping->next_removal(fx->fs, NULL);
	assert_non_null(removal);
	assert_null(fx->fs->keeping->next_removal(fx->fs, removal));
	assert_int_equal(fx->fs->keeping->put_removal(fx->fs, removal, &fields, &id), 0);
	assert_true(kf_is_there("new") && id > 0);
	kf_next_open(&n, fx);
	keeper_wait(n.k);
	record_str(&bad, 1, "python");
	record_str(&bad, 2, "../new");
	assert_int_equal(n.fs->keeping->get_removal(n.fs, 7, record_reader(bad.data, bad.len)),
			 -EBADMSG);
	assert_int_equal(
		n.fs->keeping->get_removal(n.fs, id, record_reader(fields.data, fields.len)), 0);
	keeper_go(n.k);
	kf_written();
	snprintf(rec, sizeof(rec), "%s/sessions/python/new.rec", n.state);
	assert_int_equal(access(rec, F_OK), -1);
	assert_null(n.fs->keeping->next_removal(n.fs, NULL));
	kf_next_end(&n);
	assert_null(fx->fs->keeping->next_removal(fx->fs, NULL));
	buf_clear(&fields);
	buf_clear(&bad);
}

/* What is saved goes to the disk without waiting for its time, and a checkpoint that is said to be whole is there. */
static void test_whole(void **data)
{
	static const char status[] = TOP "checkpoints/a/status.json",
			  whole[] = "\"state\": \"whole\"", saving[] = "\"state\": \"saving\"";
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	struct file f;
	struct req *r;
	struct kf_next n;

	fake_exit(s, VM_DONE, 0);
	kf_written();
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	f = fx_opened(fx, TOP "checkpoints/a/wait", O_RDONLY);
	r = fx_read(fx, &f, 10, 0);
	fake_saved(s, fake_saved_new(100, true), NULL);
	assert_int_equal(fake_vault_storing(), 1);
	fx_expect_in(fx, status, saving);
	assert_waits(r);
	fake_vault_stores(0);
	fx_expect_in(fx, status, saving); /* no record names it */
	clock_advance(1);
	clock_work();
	fx_expect_in(fx, status, whole);
	assert_bytes(r, "whole\n");
	fx_close(fx, &f);
	kf_next_begin(&n, fx);
	assert_int_equal(checkpoint_find(kf_found(&n, "demo"), "a")->state, CHECKPOINT_WHOLE);
	assert_false(checkpoint_find(kf_found(&n, "demo"), "a")->unwritten);
	kf_next_end(&n);
	/* So does what sleeps; and it is no other thing under another name. */
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep"), 0);
	fake_saved(s, fake_saved_new(200, true), NULL);
	assert_int_equal(fake_vault_storing(), 1);
	fake_vault_stores(0);
	assert_int_equal(fx_put(fx, TOP "ctl", "checkpoint b"), 0);
	fx_expect_in(fx, TOP "checkpoints/b/status.json", saving);
	clock_advance(1);
	clock_work();
	fx_expect_in(fx, TOP "checkpoints/b/status.json", whole);
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_ASLEEP);
	assert_int_equal(checkpoint_find(kf_found(&n, "demo"), "b")->state, CHECKPOINT_WHOLE);
	kf_next_end(&n);
}

static void test_long_output(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "much");
	char block[8192];
	struct kf_next n;
	struct spool *sp;

	memset(block, 'x', sizeof(block));
	for (int i = 0; i < 20; i++)
		fake_output_bytes(s, VM_STDOUT, block, sizeof(block));
	fake_exit(s, VM_DONE, 0);
	kf_written();
	assert_true(session_run(fx_demo(fx), 1)->spool[RUN_STDOUT].kept);
	kf_next_begin(&n, fx);
	sp = &session_run(kf_found(&n, "demo"), 1)->spool[RUN_STDOUT];
	assert_true(sp->away);
	n.fs->fetch.busy = true;
	n.fs->keeping->bring(kf_found(&n, "demo"), session_run(kf_found(&n, "demo"), 1),
			     RUN_STDOUT);
	clock_work();
	assert_false(sp->away);
	assert_int_equal(sp->len, sizeof(block) * 20);
	assert_int_equal(spool_read(sp, &n.fs->depot, sizeof(block) * 20 - 1, block, 10), 1);
	assert_int_equal(block[0], 'x');
	kf_next_end(&n);
	/* It goes with its run. */
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	kf_written();
}

/* A disk that refuses is told of once, and tried again. */
static void test_disk_refuses(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	char path[256], away[256];

	fake_exit(s, VM_DONE, 0);
	kf_written();
	snprintf(path, sizeof(path), "%s/sessions/python", kf_state);
	snprintf(away, sizeof(away), "%s/away", kf_state);
	assert_int_equal(rename(path, away), 0);
	assert_int_equal(symlink("/nonexistent", path), 0);
	fx_put(fx, TOP "in", "two");
	fake_exit(s, VM_DONE, 0);
	kf_written();
	fx_expect_error(fx, "python/demo", "not-kept");
	assert_int_equal(complaint_of(fx->fs, fx->fs->uid)->problem.code, PROBLEM_NOT_KEPT);
	/* That stays as long as it is true: another run goes well, and it is said still. */
	fx_put(fx, TOP "in", "three");
	fake_exit(s, VM_DONE, 0);
	fx_expect_error(fx, "python/demo", "not-kept");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rename(away, path), 0);
	clock_advance(10000);
	kf_written();
	assert_string_equal(fx_cat(fx, "python/demo/error"), "");
	assert_int_equal(fx_demo(fx)->on_disk.err, 0);
	assert_false(fx_demo(fx)->on_disk.dirty);
	assert_int_equal(complaint_of(fx->fs, fx->fs->uid)->problem.code, PROBLEM_NONE);
}

/* What could be written at last says nothing of that it could not, also if that was the last of a mount. */
static void test_refusal_is_over(void **data)
{
	struct fixture *fx = *data;
	struct keeper *k = fx->fs->keeper;
	struct keeper_item *item;
	char path[256], away[256];
	struct session *s;
	struct kf_next n;
	int err;

	assert_int_equal(fx_mkdir(fx, "python/new"), 0);
	s = session_find(fx->fs, 0, "new");
	kf_written();
	snprintf(path, sizeof(path), "%s/sessions/python", kf_state);
	snprintf(away, sizeof(away), "%s/away", kf_state);
	assert_int_equal(rename(path, away), 0);
	assert_int_equal(symlink("/nonexistent", path), 0);
	fx_put(fx, "python/new/stdin", "more");
	keeping_changed(s);
	kf_written();
	fx_expect_error(fx, "python/new", "not-kept");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rename(away, path), 0);
	/* The first write that goes well, and the mount ends with it. */
	item = keeper_item_new(k, s, &err);
	assert_non_null(item);
	keeper_write(&k->store, item);
	assert_int_equal(item->err, 0);
	keeper_item_free(k, item);
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "new")->front.next_stdin.len, 4);
	assert_int_equal(problem_kept(&kf_found(&n, "new")->front.error)->code, PROBLEM_NONE);
	kf_next_end(&n);
}

/* ---- long code ---- */

/* What takes long with a long record is the thread's, which finds out as well that there is nothing new in it. */
static void test_unchanged(void **data)
{
	struct fixture *fx = *data;
	struct keeper_item *item;
	struct stat before, after;
	char path[256];
	int err = 0;

	assert_int_equal(fx_mkdir(fx, "python/same"), 0);
	kf_written();
	snprintf(path, sizeof(path), "%s/sessions/python/same.rec", kf_state);
	assert_int_equal(stat(path, &before), 0);
	keeping_changed(session_find(fx->fs, 0, "same"));
	item = keeper_item_new(fx->fs->keeper, session_find(fx->fs, 0, "same"), &err);
	assert_non_null(item);
	assert_int_equal(item->sum, 0);
	keeper_item_free(fx->fs->keeper, item);
	kf_written();
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino); /* a new one has another name at first */
	assert_false(session_find(fx->fs, 0, "same")->on_disk.dirty);
	fx_put(fx, "python/same/stdin", "new");
	keeping_changed(session_find(fx->fs, 0, "same"));
	kf_written();
	assert_int_equal(stat(path, &after), 0);
	assert_int_not_equal(before.st_ino, after.st_ino);
}

/* A session that is too large for a record keeps no other from being written, and the end from coming. */
static void test_too_large(void **data)
{
	struct fixture *fx = *data;
	struct session *s;

	assert_int_equal(fx_mkdir(fx, "python/large"), 0);
	assert_int_equal(fx_mkdir(fx, "python/other"), 0);
	s = session_find(fx->fs, 0, "large");
	s->front.next_stdin.limit = 0;
	assert_int_equal(buf_truncate(&s->front.next_stdin, RECORD_MAX + 1), 0);
	kf_written();
	assert_true(kf_is_there("other"));
	assert_false(kf_is_there("large"));
	assert_int_equal(problem_kept(&s->front.error)->code, PROBLEM_NOT_KEPT);
	assert_non_null(strstr(problem_kept(&s->front.error)->cause, strerror(EFBIG)));
	/* Nor does what comes later wait until that one is tried again. */
	assert_int_equal(fx_mkdir(fx, "python/later"), 0);
	clock_advance(1100);
	clock_work();
	assert_true(kf_is_there("later"));
	keeper_flush(fx->fs->keeper);
	kf_written();
	assert_true(keeper_is_idle(fx->fs->keeper));
	buf_clear(&s->front.next_stdin);
}

/* Nor with a checkpoint that waits for the disk: that it waits on is told, which changes the session while the job is filled. */
static void test_too_large_whole(void **data)
{
	struct fixture *fx = *data;
	struct keeper *k = fx->fs->keeper;
	struct sandbox *box = fx_run(fx, "one");
	struct session *s = fx_demo(fx);
	const struct keeper_item *job;

	fake_exit(box, VM_DONE, 0);
	kf_written();
	fx_checkpoint(fx, box, "a");
	s->front.next_stdin.limit = 0;
	assert_int_equal(buf_truncate(&s->front.next_stdin, RECORD_MAX + 1), 0);
	assert_int_equal(fx_mkdir(fx, "python/other"), 0);
	fake_vault_stores(0);
	clock_advance(1);
	assert_int_equal(s->on_disk.err, -EFBIG);
	job = k->job;
	assert_true(k->busy && job);
	/* There is one job at a time: nobody takes it from the thread. */
	clock_advance(1100);
	assert_ptr_equal(k->job, job);
	clock_work();
	assert_true(kf_is_there("other"));
	/* It is on one list, once. */
	assert_true(s->on_disk.dirty && s->on_disk.refused);
	assert_ptr_equal(TAILQ_FIRST(&k->refused), s);
	assert_null(TAILQ_NEXT(s, on_disk.link));
	buf_clear(&s->front.next_stdin);
	clock_advance(6000);
	kf_written();
	assert_int_equal(s->on_disk.err, 0);
	assert_false(s->on_disk.dirty || checkpoint_find(s, "a")->unwritten);
}

/* What could not be removed does not come back; nor does it take with it one that has its name now. */
static void test_removal_refused(void **data)
{
	struct fixture *fx = *data;
	char path[256], away[256];
	struct kf_next n;

	assert_int_equal(fx_mkdir(fx, "python/gone"), 0);
	assert_int_equal(fx_mkdir(fx, "python/again"), 0);
	kf_written();
	snprintf(path, sizeof(path), "%s/sessions/python", kf_state);
	snprintf(away, sizeof(away), "%s/away", kf_state);
	assert_int_equal(rename(path, away), 0);
	assert_int_equal(symlink("/nonexistent", path), 0);
	assert_int_equal(fx_rmdir(fx, "python/gone"), 0);
	assert_int_equal(fx_rmdir(fx, "python/again"), 0);
	kf_written();
	assert_false(keeper_may_yield(fx->fs->keeper));
	assert_int_equal(complaint_of(fx->fs, fx->fs->uid)->problem.code, PROBLEM_NOT_KEPT);
	assert_int_equal(fx_mkdir(fx, "python/again"), 0);
	kf_written();
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rename(away, path), 0);
	assert_true(kf_is_there("gone"));
	clock_advance(10000);
	kf_written();
	kf_written();
	assert_false(kf_is_there("gone"));
	assert_true(kf_is_there("again"));
	assert_true(keeper_may_yield(fx->fs->keeper));
	kf_next_begin(&n, fx);
	assert_null(session_find(n.fs, 0, "gone"));
	assert_int_equal(kf_found(&n, "again")->created.tv_sec,
			 session_find(fx->fs, 0, "again")->created.tv_sec);
	assert_int_equal(kf_found(&n, "again")->created.tv_nsec,
			 session_find(fx->fs, 0, "again")->created.tv_nsec);
	kf_next_end(&n);
}

static void spoil(const char *name)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/sessions/python/%s.rec", kf_state, name);
	f = fopen(path, "r+");
	assert_non_null(f);
	assert_int_equal(fseek(f, 60, SEEK_SET), 0);
	assert_int_equal(fwrite("\xff\xff\xff", 1, 3, f), 3);
	fclose(f);
}

static void test_damaged(void **data)
{
	struct fixture *fx = *data;
	struct timespec now = clock_now();
	struct buf code = {0};
	struct checkpoint *cp;
	struct kf_next n;
	struct job *j;

	assert_int_equal(fx_mkdir(fx, "python/good"), 0);
	fx_put(fx, TOP "config", "timeout_s = 5\n");
	kf_written();
	spoil("demo");
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "good")->state, SESSION_NEW);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_FAILED);
	assert_int_equal(problem_kept(&kf_found(&n, "demo")->front.error)->code, PROBLEM_DAMAGED);
	assert_int_equal(buf_append(&code, "x", 1), 0);
	assert_int_equal(session_submit(kf_found(&n, "demo"), &code, &now), -ESTALE);
	buf_clear(&code);
	assert_int_equal(session_start(kf_found(&n, "demo")), -ESTALE);
	assert_int_equal(session_checkpoint(kf_found(&n, "demo"), "a", true, &cp), -ESTALE);
	assert_int_equal(config_replace(kf_found(&n, "demo"), "timeout_s = 3\n", 14), -ESTALE);
	assert_int_equal(config_list(kf_found(&n, "demo"), NODE_NET_ALLOW, "", 0), -ESTALE);
	assert_int_equal(job_create(kf_found(&n, "demo"), "j", false, &j), -ESTALE);
	assert_int_equal(session_check_damaged(kf_found(&n, "demo")), -ESTALE);
	/* Whoever looks at the root sees it as well. */
	assert_int_equal(complaint_of(n.fs, getuid())->problem.code, PROBLEM_DAMAGED);
	assert_non_null(strstr(complaint_of(n.fs, getuid())->problem.cause, "python/demo: "));
	kf_next_end(&n);
}

/* Of many the root names the first few, and says how many there are. */
static void test_many_damaged(void **data)
{
	struct fixture *fx = *data;
	const char *cause;
	struct kf_next n;
	char path[64];

	for (int c = 'a'; c < 'f'; c++) {
		snprintf(path, sizeof(path), "python/bad-%c", c);
		assert_int_equal(fx_mkdir(fx, path), 0);
	}
	kf_written();
	for (int c = 'a'; c < 'f'; c++) {
		snprintf(path, sizeof(path), "bad-%c", c);
		spoil(path);
	}
	kf_next_begin(&n, fx);
	cause = complaint_of(n.fs, getuid())->problem.cause;
	assert_non_null(strstr(cause, "5 sessions can't be read from state_dir: python/bad-"));
	assert_non_null(strstr(cause, ", python/bad-"));
	assert_string_equal(cause + strlen(cause) - 4, " ...");
	kf_next_end(&n);
}

/* ... though another configuration allows them. The session is not made another one for that, nor written as that. */
static void test_not_allowed(void **data)
{
	struct fixture *fx = *data;
	const unsigned most = fx->conf.limits.max_memory_mb;
	struct kf_next n;

	fx_put(fx, TOP "config", "memory_mb = 300\n");
	kf_written();
	fx->conf.limits.max_memory_mb = 256;
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_FAILED);
	assert_non_null(strstr(problem_kept(&kf_found(&n, "demo")->front.error)->cause,
			       "its settings are not allowed"));
	assert_true(kf_found(&n, "demo")->on_disk.damaged); /* it is not written */
	kf_next_end(&n);
	fx->conf.limits.max_memory_mb = most;
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "demo")->settings.spec.memory_mb, 300);
	kf_next_end(&n);
}

/* Those of a checkpoint are no reason to be without the session: it alone can't be had, and stays as it is. */
static void test_checkpoint_not_allowed(void **data)
{
	struct fixture *fx = *data;
	const unsigned most = fx->conf.limits.max_memory_mb;
	struct checkpoint *cp;
	struct problem why;
	struct kf_next n;

	kf_checkpoint_not_allowed(fx);
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_NEW);
	assert_false(kf_found(&n, "demo")->on_disk.damaged);
	cp = checkpoint_find(kf_found(&n, "demo"), "a");
	assert_int_equal(checkpoint_shown(kf_found(&n, "demo"), cp), CHECKPOINT_FAILED);
	assert_true(checkpoint_problem(kf_found(&n, "demo"), cp, &why));
	assert_non_null(strstr(why.cause, "a checkpoint's settings are not allowed"));
	assert_false(checkpoint_any(kf_found(&n, "demo")));
	assert_int_equal(session_restore(kf_found(&n, "demo"), "a"), -ENOENT);
	assert_int_equal(checkpoint_new(kf_found(&n, "demo"), "a", cp->saved, &cp, &why), -EEXIST);
	kf_next_writes(&n, "demo");
	kf_next_end(&n);
	fx->conf.limits.max_memory_mb = most;
	kf_next_begin(&n, fx);
	cp = checkpoint_find(kf_found(&n, "demo"), "a");
	assert_int_equal(checkpoint_shown(kf_found(&n, "demo"), cp), CHECKPOINT_WHOLE);
	assert_int_equal(cp->settings.spec.memory_mb, 300);
	assert_int_equal(kf_found(&n, "demo")->settings.spec.memory_mb, 200);
	kf_next_end(&n);
}

/* What can't be listed may name what is saved: that stays, and so do outputs. */
static void test_unlisted(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	char path[256], away[256], left[256];
	struct kf_next n;

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	fake_saved(s, fake_saved_new(100, true), NULL);
	kf_written();
	assert_int_equal(fake_vault_there(), 1);
	snprintf(path, sizeof(path), "%s/sessions/python", kf_state);
	snprintf(away, sizeof(away), "%s/away", kf_state);
	assert_int_equal(rename(path, away), 0);
	assert_int_equal(symlink("/nonexistent", path), 0);
	kf_next_begin(&n, fx);
	assert_int_equal(fake_vault_there(), 1);
	assert_non_null(complaint_of(n.fs, n.fs->uid));
	kf_next_end(&n);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rename(away, path), 0);
	snprintf(left, sizeof(left), "%s/sessions/python/gone.1-1.out", kf_state);
	assert_int_equal(mkdir(left, 0700), 0);
	kf_next_begin(&n, fx);
	snprintf(away, sizeof(away), "%s/sessions/python/gone.1-1.out", n.state);
	assert_int_equal(access(away, F_OK), -1);
	assert_int_equal(checkpoint_find(kf_found(&n, "demo"), "a")->state, CHECKPOINT_WHOLE);
	kf_next_end(&n);
	spoil("demo");
	kf_next_begin(&n, fx);
	assert_int_equal(access(away, F_OK), 0);
	assert_int_equal(fake_vault_there(), 1);
	kf_next_end(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_written, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_removal, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_whole, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_long_output, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_disk_refuses, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_refusal_is_over, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_unchanged, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_too_large, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_too_large_whole, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_removal_refused, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_damaged, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_not_allowed, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_checkpoint_not_allowed, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_many_damaged, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_unlisted, kf_setup, kf_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
