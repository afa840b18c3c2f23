/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping sessions: when they are written, what the next mount finds, how the end puts them to sleep. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/vault_fake.c vm/base/record.c vm/base/remove.c */
/* modules: fs/keep/aside.c fs/keep/code.c fs/keep/front.c fs/keep/job.c fs/keep/join.c fs/keep/lasting.c fs/keep/live.c fs/keep/output.c fs/keep/run.c fs/keep/session.c fs/keep/sound.c fs/keep/value.c vm/base/problem_record.c */
/* modules: fs/keep/keeper.c fs/keep/keeper_item.c fs/keep/keeper_load.c fs/keep/keeper_removal.c fs/keep/keeper_end.c fs/keep/store.c */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/keep/keeper.h"
#include "fs/keep/keeper_internal.h"
#include "fs/keep/store.h"
#include "tests/unit/fixture/fixture.h"
#include "tests/unit/fixture/vault_fake.h"
#include "vm/base/record.h"
#include "vm/base/remove.h"

#define TOP "python/demo/"

static char top[64], state[128];
static bool over;
static struct timespec made; /* when demo was */

static void on_over(void *data)
{
	(void)data;
	over = true;
}

static struct keeper *kept(struct fs *fs, const char *path)
{
	struct problem why = {0};
	struct keeper *k = NULL;
	struct store st;

	if (store_open(path, &st, &why) < 0 || keeper_open(fs, &st, &k, &why) < 0)
		fail_msg("%s", why.cause);
	return k;
}

static int setup(void **data)
{
	struct fixture *fx;

	snprintf(top, sizeof(top), "/tmp/xsbxfs-unit.XXXXXX");
	assert_non_null(mkdtemp(top));
	snprintf(state, sizeof(state), "%s/state", top);
	fx_setup(data);
	fx = *data;
	over = false;
	fx->conf.allow_other = true; /* the client is not who runs the test */
	keeper_load(kept(fx->fs, state));
	return 0;
}

/* The end, as far as it comes by itself. */
static void end(struct fs *fs)
{
	struct keeper *k = fs->keeper;

	if (!over)
		keeper_end(k, true, on_over, NULL);
	for (int i = 0; i < 20 && !over; i++) {
		clock_work();
		fake_vault_stores(0);
		clock_advance(100);
	}
	assert_true(over);
}

static int teardown(void **data)
{
	struct fixture *fx = *data;
	struct keeper *k = fx->fs->keeper;

	if (k)
		end(fx->fs);
	fx_stop(fx);
	clock_work();
	assert_true(keeper_close(k));
	fake_vault_clear();
	assert_int_equal(remove_tree(top), 0);
	return fx_teardown(data);
}

/* What is written meanwhile is on the disk. */
static void written(void)
{
	for (int i = 0; i < 4; i++) {
		clock_advance(2000);
		clock_work();
		fake_vault_stores(0);
	}
}

static bool is_there(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/sessions/python/%s.rec", state, name);
	return access(path, F_OK) == 0;
}

/* ---- the next mount ---- */

struct next {
	struct second mount;
	struct fs *fs; /* its */
	char state[160];
	struct keeper *k;
};

/* As after a power cut, with what is on the disk now: the first one has done nothing to end. */
static void next_open(struct next *n, struct fixture *fx)
{
	int status = -1;
	pid_t pid;

	/* It has the lock still, being alive. */
	snprintf(n->state, sizeof(n->state), "%s.cut", state);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		execl("/bin/cp", "cp", "-a", state, n->state, NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	second_begin(&n->mount, fx);
	n->fs = n->mount.fs;
	n->k = kept(n->fs, n->state);
}

static void next_begin(struct next *n, struct fixture *fx)
{
	next_open(n, fx);
	keeper_load(n->k);
}

static void next_end(struct next *n)
{
	over = false;
	end(n->fs);
	over = false;
	mount_stop(n->fs);
	clock_work();
	assert_true(keeper_close(n->k));
	second_free(&n->mount);
	assert_int_equal(remove_tree(n->state), 0);
}

static struct session *found(struct next *n, const char *name)
{
	struct session *s = session_find(n->fs, 0, name);

	assert_non_null(s);
	return s;
}

/* ---- tests ---- */

static void test_written(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s;
	struct next n;

	/* Nothing in the first moment, and not for every change. */
	assert_int_equal(fx_mkdir(fx, "python/new"), 0);
	assert_false(is_there("new"));
	written();
	assert_true(is_there("new"));
	s = fx_run(fx, "one");
	fake_output(s, VM_STDOUT, "out");
	fake_exit(s, VM_DONE, 3);
	written();
	next_begin(&n, fx);
	assert_int_equal(found(&n, "new")->state, SESSION_NEW);
	assert_int_equal(found(&n, "demo")->state, SESSION_CLOSED);
	assert_int_equal(session_run(found(&n, "demo"), 1)->result.status, 3);
	next_end(&n);
	assert_int_equal(fx_rmdir(fx, "python/new"), 0);
	written();
	assert_false(is_there("new"));
	assert_true(fake_vault_forgets() > 0);
}

/* A daemon that dies before it has removed something leaves that to its heir. */
static void test_removal(void **data)
{
	struct fixture *fx = *data;
	struct buf fields = {0}, bad = {0};
	struct touch *removal;
	char rec[256];
	struct next n;
	uint64_t id;

	assert_int_equal(fx_mkdir(fx, "python/new"), 0);
	written();
	assert_null(fx->fs->keeping->next_removal(fx->fs, NULL));
	assert_int_equal(fx_rmdir(fx, "python/new"), 0);
	removal = fx->fs->keeping->next_removal(fx->fs, NULL);
	assert_non_null(removal);
	assert_null(fx->fs->keeping->next_removal(fx->fs, removal));
	assert_int_equal(fx->fs->keeping->put_removal(fx->fs, removal, &fields, &id), 0);
	assert_true(is_there("new") && id > 0);
	next_open(&n, fx);
	keeper_wait(n.k);
	record_str(&bad, 1, "python");
	record_str(&bad, 2, "../new");
	assert_int_equal(n.fs->keeping->get_removal(n.fs, 7, record_reader(bad.data, bad.len)),
			 -EBADMSG);
	assert_int_equal(
		n.fs->keeping->get_removal(n.fs, id, record_reader(fields.data, fields.len)), 0);
	keeper_go(n.k);
	written();
	snprintf(rec, sizeof(rec), "%s/sessions/python/new.rec", n.state);
	assert_int_equal(access(rec, F_OK), -1);
	assert_null(n.fs->keeping->next_removal(n.fs, NULL));
	next_end(&n);
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
	struct next n;

	fake_exit(s, VM_DONE, 0);
	written();
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
	next_begin(&n, fx);
	assert_int_equal(checkpoint_find(found(&n, "demo"), "a")->state, CHECKPOINT_WHOLE);
	assert_false(checkpoint_find(found(&n, "demo"), "a")->unwritten);
	next_end(&n);
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
	next_begin(&n, fx);
	assert_int_equal(found(&n, "demo")->state, SESSION_ASLEEP);
	assert_int_equal(checkpoint_find(found(&n, "demo"), "b")->state, CHECKPOINT_WHOLE);
	next_end(&n);
}

/* What is saved is named when it is on the disk, and not before. */
static void test_saved(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	struct next n;

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	fake_saved(s, fake_saved_new(100, true), NULL);
	clock_advance(2000);
	clock_work();
	assert_int_equal(fake_vault_storing(), 1);
	assert_false(keeper_may_yield(fx->fs->keeper));
	next_begin(&n, fx);
	assert_int_equal(checkpoint_find(found(&n, "demo"), "a")->state, CHECKPOINT_FAILED);
	next_end(&n);
	written();
	assert_int_equal(fake_vault_there(), 1);
	next_begin(&n, fx);
	assert_int_equal(checkpoint_find(found(&n, "demo"), "a")->state, CHECKPOINT_WHOLE);
	next_end(&n);
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
	written();
	written();
	assert_int_equal(fake_vault_there(), 2);
	assert_int_equal(fx_demo(fx)->on_disk.err, 0);
	next_begin(&n, fx);
	assert_int_equal(checkpoint_find(found(&n, "demo"), "b")->state, CHECKPOINT_WHOLE);
	next_end(&n);
}

/* Until it has fallen asleep again, a session that is awake is kept as it was before, and that is told. */
static void test_awake(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	struct next n;

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep"), 0);
	fake_saved(s, fake_saved_new(100, true), NULL);
	written();
	assert_int_equal(fake_vault_there(), 1);
	fx_put(fx, TOP "in", "two");
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	fake_exit(s, VM_DONE, 0);
	written();
	assert_int_equal(fake_vault_there(), 1);
	next_begin(&n, fx);
	assert_int_equal(found(&n, "demo")->state, SESSION_ASLEEP);
	assert_non_null(found(&n, "demo")->asleep.saved);
	assert_non_null(strstr(problem_kept(&found(&n, "demo")->front.error)->cause,
			       "as it was when it fell asleep at"));
	assert_int_equal(session_run(found(&n, "demo"), 2)->state, RUN_DONE);
	next_end(&n);
	/* Not before the other one is on the disk is the first one gone. */
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep"), 0);
	fake_saved(s, fake_saved_new(200, true), NULL);
	clock_advance(1100);
	clock_work();
	assert_int_equal(fake_vault_storing(), 1);
	next_begin(&n, fx);
	assert_int_equal(found(&n, "demo")->state, SESSION_ASLEEP);
	assert_int_equal(saved_bytes(found(&n, "demo")->asleep.saved), 1100);
	next_end(&n);
	written();
	assert_null(fx_demo(fx)->asleep.before);
	next_begin(&n, fx);
	assert_int_equal(fake_vault_there(), 1);
	assert_int_equal(saved_bytes(found(&n, "demo")->asleep.saved), 1200);
	assert_int_equal(problem_kept(&found(&n, "demo")->front.error)->code, PROBLEM_NONE);
	next_end(&n);
	/* A session that is closed has nothing to go back to. */
	fx_put(fx, TOP "in", "three");
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	fake_exit(s, VM_DONE, 0);
	written();
	assert_int_equal(fx_put(fx, TOP "ctl", "close"), 0);
	written();
	assert_null(fx_demo(fx)->asleep.before);
	next_begin(&n, fx);
	assert_int_equal(fake_vault_there(), 0);
	assert_int_equal(found(&n, "demo")->state, SESSION_CLOSED);
	next_end(&n);
}

/* What sleeps on the disk became something else that can't be stored yet: until then it is kept as it was. */
static void goes_back(struct fixture *fx)
{
	struct next n;

	for (int i = 0; i < 3; i++) {
		clock_advance(6000);
		clock_work();
		fake_vault_stores(-ENOSPC);
	}
	next_begin(&n, fx);
	assert_int_equal(found(&n, "demo")->state, SESSION_ASLEEP);
	assert_int_equal(saved_bytes(found(&n, "demo")->asleep.saved), 1100);
	assert_true(saved_has_memory(found(&n, "demo")->asleep.saved));
	assert_non_null(strstr(problem_kept(&found(&n, "demo")->front.error)->cause,
			       "as it was when it fell asleep at"));
	next_end(&n);
}

static void goes_on(struct fixture *fx, bool memory)
{
	struct next n;

	written();
	written();
	assert_null(fx_demo(fx)->asleep.before);
	next_begin(&n, fx);
	assert_int_equal(found(&n, "demo")->state, SESSION_ASLEEP);
	assert_true(saved_has_memory(found(&n, "demo")->asleep.saved) == memory);
	assert_int_equal(problem_kept(&found(&n, "demo")->front.error)->code, PROBLEM_NONE);
	next_end(&n);
}

static void test_reset_asleep(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep"), 0);
	fake_saved(s, fake_saved_new(100, true), NULL);
	written();
	assert_int_equal(fx_put(fx, TOP "ctl", "reset"), 0);
	goes_back(fx);
	goes_on(fx, false);
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

static void test_long_output(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "much");
	char block[8192];
	struct next n;
	struct spool *sp;

	memset(block, 'x', sizeof(block));
	for (int i = 0; i < 20; i++)
		fake_output_bytes(s, VM_STDOUT, block, sizeof(block));
	fake_exit(s, VM_DONE, 0);
	written();
	assert_true(session_run(fx_demo(fx), 1)->spool[RUN_STDOUT].kept);
	next_begin(&n, fx);
	sp = &session_run(found(&n, "demo"), 1)->spool[RUN_STDOUT];
	assert_true(sp->away);
	n.fs->fetch.busy = true;
	n.fs->keeping->bring(found(&n, "demo"), session_run(found(&n, "demo"), 1), RUN_STDOUT);
	clock_work();
	assert_false(sp->away);
	assert_int_equal(sp->len, sizeof(block) * 20);
	assert_int_equal(spool_read(sp, &n.fs->depot, sizeof(block) * 20 - 1, block, 10), 1);
	assert_int_equal(block[0], 'x');
	next_end(&n);
	/* It goes with its run. */
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	written();
}

/* A disk that refuses is told of once, and tried again. */
static void test_disk_refuses(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	char path[256], away[256];

	fake_exit(s, VM_DONE, 0);
	written();
	snprintf(path, sizeof(path), "%s/sessions/python", state);
	snprintf(away, sizeof(away), "%s/away", state);
	assert_int_equal(rename(path, away), 0);
	assert_int_equal(symlink("/nonexistent", path), 0);
	fx_put(fx, TOP "in", "two");
	fake_exit(s, VM_DONE, 0);
	written();
	fx_expect_error(fx, "python/demo", "not-kept");
	assert_int_equal(complaint_of(fx->fs, fx->fs->uid)->problem.code, PROBLEM_NOT_KEPT);
	/* That stays as long as it is true: another run goes well, and it is said still. */
	fx_put(fx, TOP "in", "three");
	fake_exit(s, VM_DONE, 0);
	fx_expect_error(fx, "python/demo", "not-kept");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rename(away, path), 0);
	clock_advance(10000);
	written();
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
	struct next n;
	int err;

	assert_int_equal(fx_mkdir(fx, "python/new"), 0);
	s = session_find(fx->fs, 0, "new");
	written();
	snprintf(path, sizeof(path), "%s/sessions/python", state);
	snprintf(away, sizeof(away), "%s/away", state);
	assert_int_equal(rename(path, away), 0);
	assert_int_equal(symlink("/nonexistent", path), 0);
	fx_put(fx, "python/new/stdin", "more");
	keeping_changed(s);
	written();
	fx_expect_error(fx, "python/new", "not-kept");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rename(away, path), 0);
	/* The first write that goes well, and the mount ends with it. */
	item = keeper_item_new(k, s, &err);
	assert_non_null(item);
	keeper_write(&k->store, item);
	assert_int_equal(item->err, 0);
	keeper_item_free(k, item);
	next_begin(&n, fx);
	assert_int_equal(found(&n, "new")->front.next_stdin.len, 4);
	assert_int_equal(problem_kept(&found(&n, "new")->front.error)->code, PROBLEM_NONE);
	next_end(&n);
}

/* ---- long code ---- */

static char long_code[3 * 65536 + 100];

static void code_path(char path[320], const char *of, const char *file)
{
	snprintf(path, 320, "%s/sessions/python/demo.%s.out/%s", of, store_id(&made).text, file);
}

static struct sandbox *run_long(struct fixture *fx)
{
	struct sandbox *s;

	memset(long_code, 'c', sizeof(long_code) - 1);
	s = fx_run(fx, long_code);
	fake_exit(s, VM_DONE, 0);
	made = fx_demo(fx)->created;
	return s;
}

static void expect_code(const struct run *r, const char *code)
{
	assert_int_equal(r->code.len, strlen(code));
	assert_memory_equal(r->code.data, code, r->code.len);
}

/* It is written once, and goes with its run. */
static void test_long_code(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = run_long(fx);
	struct stat before, after;
	char path[320];
	struct next n;

	fx_put(fx, TOP "in", "short");
	fake_exit(s, VM_DONE, 0);
	written();
	code_path(path, state, "r1.code");
	assert_int_equal(stat(path, &before), 0);
	next_begin(&n, fx);
	expect_code(session_run(found(&n, "demo"), 1), long_code);
	assert_int_equal(session_run(found(&n, "demo"), 1)->code.len, strlen(long_code));
	assert_true(session_run(found(&n, "demo"), 1)->code_kept);
	assert_int_equal(session_run(found(&n, "demo"), 2)->code.len, 5);
	next_end(&n);
	fx_put(fx, TOP "in", "three");
	fake_exit(s, VM_DONE, 0);
	written();
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_int_equal(fx_rmdir(fx, TOP "runs/1"), 0);
	written();
	assert_int_equal(access(path, F_OK), -1);
}

/* What the loop does for one run more does not grow with the code of those before. */
static void test_much_code(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = run_long(fx);
	struct keeper_item *item;
	size_t one = 0;
	int err;

	for (int i = 0; i < 3; i++) {
		written();
		item = keeper_item_new(fx->fs->keeper, fx_demo(fx), &err);
		assert_non_null(item);
		if (i == 0)
			one = item->record.len;
		else
			assert_true(item->record.len < one + 4096 && item->bytes < one + 4096);
		assert_true(item->record.len < KEEP_CODE_SHORT && !item->ncodes);
		keeper_item_free(fx->fs->keeper, item);
		for (int j = 0; j < 5; j++) {
			fx_put(fx, TOP "in", long_code);
			fake_exit(s, VM_DONE, 0);
		}
		item = keeper_item_new(fx->fs->keeper, fx_demo(fx), &err);
		assert_non_null(item);
		assert_int_equal(item->ncodes, 5);
		assert_true(item->record.len < one + 4096);
		keeper_item_free(fx->fs->keeper, item);
	}
}

/* One file that is damaged, or not there: its run has no code, says so, and all else is as it was. */
static void test_damaged_code(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = run_long(fx);
	char path[320], other[320];
	struct next n;
	FILE *f;

	fx_put(fx, TOP "in", long_code);
	fake_exit(s, VM_DONE, 0);
	fx_put(fx, TOP "in", long_code);
	fake_exit(s, VM_DONE, 0);
	written();
	code_path(path, state, "r1.code");
	assert_int_equal(unlink(path), 0);
	code_path(path, state, "r2.code");
	f = fopen(path, "r+");
	assert_non_null(f);
	assert_int_equal(fseek(f, 1000, SEEK_SET), 0);
	assert_int_equal(fputc('x', f), 'x');
	fclose(f);
	next_begin(&n, fx);
	assert_int_equal(problem_kept(&found(&n, "demo")->front.error)->code, PROBLEM_DAMAGED);
	assert_non_null(strstr(problem_kept(&found(&n, "demo")->front.error)->cause, "of run 1"));
	for (unsigned i = 1; i <= 3; i++) {
		const struct run *r = session_run(found(&n, "demo"), i);

		assert_int_equal(r->state, RUN_DONE);
		assert_int_equal(r->code_lost, i < 3 ? strlen(long_code) : 0);
		assert_int_equal(r->code.len, i < 3 ? 0 : strlen(long_code));
	}
	/* What there is of it stays, for another time. */
	keeping_changed(found(&n, "demo"));
	session_used(found(&n, "demo"));
	written();
	code_path(path, n.state, "r2.code");
	assert_int_equal(access(path, F_OK), 0);
	next_end(&n);
	/* That of another run is not this one's. */
	code_path(path, state, "r3.code");
	code_path(other, state, "r2.code");
	assert_int_equal(unlink(other), 0);
	assert_int_equal(link(path, other), 0);
	next_begin(&n, fx);
	assert_int_equal(session_run(found(&n, "demo"), 2)->code_lost, strlen(long_code));
	assert_int_equal(session_run(found(&n, "demo"), 3)->code_lost, 0);
	next_end(&n);
}

static bool not_away(void *data, const struct keep_output *o, struct run *r)
{
	(void)data;
	(void)o;
	(void)r;
	return false;
}

static void write_version(const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/version", state);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* A directory of version 1 has all code in its records. */
static void test_version_1(void **data)
{
	struct fixture *fx = *data;
	const struct keep_io io = {.code_away = not_away, .name = keeper_saved_name};
	const struct store *st = &fx->fs->keeper->store;
	struct store_name of;
	struct buf record = {0};
	char path[320], text[8] = "";
	struct next n;
	FILE *f;

	run_long(fx);
	written();
	of = keeper_name(fx_demo(fx));
	assert_int_equal(keep_put(&record, fx_demo(fx), &io), 0);
	assert_true(record.len > strlen(long_code));
	assert_int_equal(store_settle(store_stage(st, &of, record.data, record.len)), 0);
	assert_int_equal(store_publish(st, &of), 0);
	store_trim_outputs(st, &of, NULL, 0);
	write_version("1\n");
	next_begin(&n, fx);
	assert_int_equal(n.k->store.version, 1);
	expect_code(session_run(found(&n, "demo"), 1), long_code);
	code_path(path, n.state, "r1.code");
	assert_int_equal(access(path, F_OK), -1);
	keeping_changed(found(&n, "demo"));
	written();
	assert_int_equal(access(path, F_OK), 0);
	snprintf(path, sizeof(path), "%s/version", n.state);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	assert_string_equal(text, "2\n");
	next_end(&n);
	buf_clear(&record);
}

/* What takes long with a long record is the thread's, which finds out as well that there is nothing new in it. */
static void test_unchanged(void **data)
{
	struct fixture *fx = *data;
	struct keeper_item *item;
	struct stat before, after;
	char path[256];
	int err = 0;

	assert_int_equal(fx_mkdir(fx, "python/same"), 0);
	written();
	snprintf(path, sizeof(path), "%s/sessions/python/same.rec", state);
	assert_int_equal(stat(path, &before), 0);
	keeping_changed(session_find(fx->fs, 0, "same"));
	item = keeper_item_new(fx->fs->keeper, session_find(fx->fs, 0, "same"), &err);
	assert_non_null(item);
	assert_int_equal(item->sum, 0);
	keeper_item_free(fx->fs->keeper, item);
	written();
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino); /* a new one has another name at first */
	assert_false(session_find(fx->fs, 0, "same")->on_disk.dirty);
	fx_put(fx, "python/same/stdin", "new");
	keeping_changed(session_find(fx->fs, 0, "same"));
	written();
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
	written();
	assert_true(is_there("other"));
	assert_false(is_there("large"));
	assert_int_equal(problem_kept(&s->front.error)->code, PROBLEM_NOT_KEPT);
	assert_non_null(strstr(problem_kept(&s->front.error)->cause, strerror(EFBIG)));
	/* Nor does what comes later wait until that one is tried again. */
	assert_int_equal(fx_mkdir(fx, "python/later"), 0);
	clock_advance(1100);
	clock_work();
	assert_true(is_there("later"));
	keeper_flush(fx->fs->keeper);
	written();
	assert_true(keeper_is_idle(fx->fs->keeper));
	buf_clear(&s->front.next_stdin);
}

/* What could not be removed does not come back; nor does it take with it one that has its name now. */
static void test_removal_refused(void **data)
{
	struct fixture *fx = *data;
	char path[256], away[256];
	struct next n;

	assert_int_equal(fx_mkdir(fx, "python/gone"), 0);
	assert_int_equal(fx_mkdir(fx, "python/again"), 0);
	written();
	snprintf(path, sizeof(path), "%s/sessions/python", state);
	snprintf(away, sizeof(away), "%s/away", state);
	assert_int_equal(rename(path, away), 0);
	assert_int_equal(symlink("/nonexistent", path), 0);
	assert_int_equal(fx_rmdir(fx, "python/gone"), 0);
	assert_int_equal(fx_rmdir(fx, "python/again"), 0);
	written();
	assert_false(keeper_may_yield(fx->fs->keeper));
	assert_int_equal(complaint_of(fx->fs, fx->fs->uid)->problem.code, PROBLEM_NOT_KEPT);
	assert_int_equal(fx_mkdir(fx, "python/again"), 0);
	written();
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rename(away, path), 0);
	assert_true(is_there("gone"));
	clock_advance(10000);
	written();
	written();
	assert_false(is_there("gone"));
	assert_true(is_there("again"));
	assert_true(keeper_may_yield(fx->fs->keeper));
	next_begin(&n, fx);
	assert_null(session_find(n.fs, 0, "gone"));
	assert_int_equal(found(&n, "again")->created.tv_sec,
			 session_find(fx->fs, 0, "again")->created.tv_sec);
	assert_int_equal(found(&n, "again")->created.tv_nsec,
			 session_find(fx->fs, 0, "again")->created.tv_nsec);
	next_end(&n);
}

/* Who is in a hurry does not wait for a run that was interrupted. */
static void test_end_in_a_hurry(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *busy = fx_run(fx, "for long");

	keeper_end(fx->fs->keeper, false, on_over, NULL);
	clock_advance(11000);
	assert_int_equal(busy->signals[SANDBOX_INTERRUPT], 1);
	assert_int_equal(busy->signals[SANDBOX_KILL], 0);
	keeper_end(fx->fs->keeper, false, on_over, NULL);
	assert_int_equal(busy->signals[SANDBOX_KILL], 1);
	fake_exit(busy, VM_KILLED, 137);
	clock_advance(100);
	fake_saved(busy, fake_saved_new(10, true), NULL);
	written();
	assert_true(over);
}

static void test_end(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *idle = fx_run(fx, "one"), *busy;
	struct next n;

	fake_exit(idle, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, "python/busy"), 0);
	fx_put(fx, "python/busy/in", "for long");
	busy = fake_sandbox();
	fake_state(busy, SANDBOX_READY);
	fx_put(fx, "python/busy/in", "never");
	keeper_end(fx->fs->keeper, false, on_over, NULL);
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
	assert_false(over);
	written();
	assert_true(over);
	next_begin(&n, fx);
	assert_int_equal(found(&n, "demo")->state, SESSION_ASLEEP);
	assert_int_equal(found(&n, "busy")->state, SESSION_ASLEEP);
	assert_int_equal(session_run(found(&n, "busy"), 1)->state, RUN_KILLED);
	next_end(&n);
	over = true;
}

/* Who does not even end when killed is closed, and what ran is lost to nobody: it is said. */
static void test_end_without_answer(void **data)
{
	struct fixture *fx = *data;
	struct next n;

	fx_run(fx, "for ever");
	keeper_end(fx->fs->keeper, false, on_over, NULL);
	for (int i = 0; i < 60 && !over; i++) {
		clock_advance(1000);
		clock_work();
		fake_vault_stores(0);
	}
	assert_true(over);
	next_begin(&n, fx);
	assert_int_equal(found(&n, "demo")->state, SESSION_CLOSED);
	assert_int_equal(problem_kept(&found(&n, "demo")->front.error)->code, PROBLEM_NOT_KEPT);
	assert_true(run_ended(session_run(found(&n, "demo"), 1)));
	next_end(&n);
	over = true;
}

static void spoil(const char *name)
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

static void test_damaged(void **data)
{
	struct fixture *fx = *data;
	struct timespec now = clock_now();
	struct buf code = {0};
	struct next n;

	assert_int_equal(fx_mkdir(fx, "python/good"), 0);
	fx_put(fx, TOP "config", "timeout_s = 5\n");
	written();
	spoil("demo");
	next_begin(&n, fx);
	assert_int_equal(found(&n, "good")->state, SESSION_NEW);
	assert_int_equal(found(&n, "demo")->state, SESSION_FAILED);
	assert_int_equal(problem_kept(&found(&n, "demo")->front.error)->code, PROBLEM_DAMAGED);
	assert_int_equal(buf_append(&code, "x", 1), 0);
	assert_int_equal(session_submit(found(&n, "demo"), &code, &now), -ESTALE);
	buf_clear(&code);
	assert_int_equal(session_reset(found(&n, "demo")), -ESTALE);
	assert_int_equal(session_close(found(&n, "demo")), -ESTALE);
	assert_int_equal(session_start(found(&n, "demo")), -ESTALE);
	next_end(&n);
}

/* What can't be listed may name what is saved: that stays, and so do outputs. */
static void test_unlisted(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	char path[256], away[256], left[256];
	struct next n;

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	fake_saved(s, fake_saved_new(100, true), NULL);
	written();
	assert_int_equal(fake_vault_there(), 1);
	snprintf(path, sizeof(path), "%s/sessions/python", state);
	snprintf(away, sizeof(away), "%s/away", state);
	assert_int_equal(rename(path, away), 0);
	assert_int_equal(symlink("/nonexistent", path), 0);
	next_begin(&n, fx);
	assert_int_equal(fake_vault_there(), 1);
	assert_non_null(complaint_of(n.fs, n.fs->uid));
	next_end(&n);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rename(away, path), 0);
	snprintf(left, sizeof(left), "%s/sessions/python/gone.1-1.out", state);
	assert_int_equal(mkdir(left, 0700), 0);
	next_begin(&n, fx);
	snprintf(away, sizeof(away), "%s/sessions/python/gone.1-1.out", n.state);
	assert_int_equal(access(away, F_OK), -1);
	assert_int_equal(checkpoint_find(found(&n, "demo"), "a")->state, CHECKPOINT_WHOLE);
	next_end(&n);
	spoil("demo");
	next_begin(&n, fx);
	assert_int_equal(access(away, F_OK), 0);
	assert_int_equal(fake_vault_there(), 1);
	next_end(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_written, setup, teardown),
		cmocka_unit_test_setup_teardown(test_removal, setup, teardown),
		cmocka_unit_test_setup_teardown(test_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(test_saved, setup, teardown),
		cmocka_unit_test_setup_teardown(test_awake, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reset_asleep, setup, teardown),
		cmocka_unit_test_setup_teardown(test_restored_asleep, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_output, setup, teardown),
		cmocka_unit_test_setup_teardown(test_disk_refuses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refusal_is_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_code, setup, teardown),
		cmocka_unit_test_setup_teardown(test_much_code, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged_code, setup, teardown),
		cmocka_unit_test_setup_teardown(test_version_1, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unchanged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_too_large, setup, teardown),
		cmocka_unit_test_setup_teardown(test_removal_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end_in_a_hurry, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end_without_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unlisted, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
