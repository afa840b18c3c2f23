/* SPDX-License-Identifier: Apache-2.0 */
/* What a daemon has left, with one record damaged: whoever it is of is lost, and nobody else. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/walk.c tests/unit/fixture/heir_fixture.c */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "fs/handover/handover.h"
#include "fs/handover/internal.h"
#include "tests/unit/fixture/heir_fixture.h"
#include "vm/base/util.h"

#define TOP "python/demo/"

static const struct one *find(const struct all *all, uint32_t kind, uint64_t key, unsigned nth)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->one[i].kind == kind && (!key || all->one[i].key == key) && !nth--)
			return &all->one[i];
	fail_msg("there is no record of kind %u", kind);
	return NULL;
}

static const struct buf nonsense = {.data = (char[]){"\xff\xff"}, .len = 2};

/* Somewhere in what there is of the log. */
static void expect_event(struct fixture *fx, const struct file *f, const char *words)
{
	const struct req *req = fx_read(fx, f, 64 << 10, 0);

	assert_int_equal(req->kind, ANSWER_BUF);
	assert_non_null(memmem(req->data, req->size, words, strlen(words)));
}

/* What has ended can be read, and so can the neighbour; what went on is over; and it can be removed. */
static void test_left(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "first");
	const uint64_t old = fx_ino(fx, TOP "stdout");
	const unsigned count = fake_count();
	struct file mine, writes, its, all_events;
	struct stat st;
	struct heir h;
	struct all all;

	fake_output(s, VM_STDOUT, "its result");
	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_put(fx, TOP "in", "second"), 0);
	assert_int_equal(fx_mkdir(fx, TOP "jobs/j"), 0);
	assert_int_equal(fx_mkdir(fx, "python/other"), 0);
	mine = fx_opened(fx, TOP "stdout", O_RDONLY);
	writes = fx_opened(fx, TOP "stdin", O_WRONLY);
	its = fx_opened(fx, "python/other/state", O_RDONLY);
	all_events = fx_opened(fx, "events", O_RDONLY);
	inventory_write(fx->fs, &all);
	heir_come(&h, fx, estate_of(&all, find(&all, KEEP_JOB, 0, 0), &nonsense));
	assert_int_equal(h.result, 0);
	assert_int_equal(fake_count(), count); /* nobody has claimed its processes */
	heir_serve(&h);
	fx_expect(fx, TOP "state", "failed\n");
	fx_expect_error(fx, "python/demo", "damaged");
	fx_expect_in(fx, TOP "error", "one of its jobs");
	fx_expect(fx, TOP "runs/1/stdout", "its result");
	fx_expect(fx, TOP "stdout", "its result");
	fx_expect(fx, TOP "in", "first");
	assert_false(fx_exists(fx, TOP "runs/2"));
	assert_string_equal(fx_ls(fx, TOP "jobs"), "");
	expect_event(fx, &all_events, "one of its jobs");
	assert_error(fx_read(fx, &mine, 10, 0), -EIO);
	assert_int_equal(fx_write(fx, &writes, "x"), -EIO);
	assert_int_equal(fx_stat_ino(fx, old, &st), -ESTALE);
	assert_bytes(fx_read(fx, &its, 10, 0), "new\n");
	assert_int_equal(fx_put(fx, "python/other/in", "goes on"), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "reset\n"), -ESTALE);
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	assert_int_equal(fx_mkdir(fx, "python/demo"), 0);
	fx_expect(fx, TOP "state", "new\n");
	fx_close(fx, &its);
	fx_close(fx, &all_events);
	heir_go(&h);
	inventory_clear(&all);
	fx_close(fx, &mine);
	fx_close(fx, &writes);
	fx_close(fx, &its);
	fx_close(fx, &all_events);
}

/* Of its head not even the name can be read: it is gone, and so are its other records. */
static void test_gone(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "first");
	struct file f;
	struct heir h;
	struct all all;

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, "python/other"), 0);
	inventory_write(fx->fs, &all);
	heir_goes_on(&h, fx, estate_of(&all, find(&all, KEEP_SESSION, 0, 0), &nonsense));
	assert_string_equal(fx_ls(fx, "python"), "template.json README.md other ");
	f = fx_opened(fx, "events", O_RDONLY);
	expect_event(fx, &f, "one whose name is not known is gone");
	fx_close(fx, &f);
	/* Its slot is not used again: its numbers are somebody's still. */
	assert_int_equal(fx_mkdir(fx, "python/demo"), 0);
	assert_int_equal(fx_demo(fx)->slot, 2);
	heir_go(&h);
	inventory_clear(&all);
}

/* A sandbox alone is as if it were not there any more: the handles of the session stay. */
static void test_sandbox(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct file f;
	struct heir h;
	struct all all;

	fake_output(s, VM_STDOUT, "half");
	f = fx_opened(fx, TOP "stdout", O_RDONLY);
	inventory_write(fx->fs, &all);
	heir_goes_on(&h, fx, estate_of(&all, find(&all, HANDOVER_SANDBOX, 0, 0), &nonsense));
	fx_expect(fx, TOP "state", "closed\n");
	fx_expect_error(fx, "python/demo", "agent-lost");
	fx_expect(fx, TOP "runs/1/state", "lost\n");
	assert_bytes(fx_read(fx, &f, 10, 0), "half");
	fx_close(fx, &f);
	heir_go(&h);
	inventory_clear(&all);
	fx_close(fx, &f);
}

/* What was saved can't be read: who sleeps with it is closed; of a session that can't be, it is there still. */
static void test_saved(void **state)
{
	struct fixture *fx = *state;
	struct heir h;
	struct all all;

	fx_asleep(fx);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/point"), 0);
	inventory_write(fx->fs, &all);
	heir_goes_on(&h, fx, estate_of(&all, find(&all, HANDOVER_SAVED, 0, 0), &nonsense));
	fx_expect(fx, TOP "state", "closed\n");
	fx_expect_error(fx, "python/demo", "damaged");
	fx_expect_in(fx, TOP "checkpoints/point/status.json", "\"failed\"");
	heir_go(&h);
	heir_goes_on(&h, fx, estate_of(&all, find(&all, KEEP_RUN, 0, 0), &nonsense));
	fx_expect(fx, TOP "state", "failed\n");
	assert_non_null(fx_demo(fx)->asleep.saved);
	fx_expect_in(fx, TOP "checkpoints/point/status.json", "\"whole\"");
	assert_int_equal(fx_put(fx, TOP "ctl", "restore point\n"), -ESTALE);
	assert_int_equal(fx_put(fx, TOP "ctl", "wake\n"), -ESTALE);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/later"), -ESTALE);
	heir_go(&h);
	inventory_clear(&all);
}

/* It costs the checkpoint alone whose it is: also one that waits for the disk, and whose settings are not allowed. */
static void test_saved_waits(void **state)
{
	static const struct problem why = {.code = PROBLEM_LIMIT, .cause = "not allowed"};
	static const char *const shown[] = {TOP "checkpoints/a/status.json",
					    TOP "checkpoints/b/status.json"};
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct checkpoint *foreign;
	struct heir h;
	struct all all;

	fake_exit(s, VM_DONE, 0);
	fx_checkpoint(fx, s, "a");
	checkpoint_find(fx_demo(fx), "a")->unwritten = true;
	fx_checkpoint(fx, s, "b");
	foreign = checkpoint_find(fx_demo(fx), "b");
	foreign->foreign = strdup("memory_mb = 99999\n");
	problem_keep(&foreign->problem, &why);
	inventory_write(fx->fs, &all);
	for (unsigned i = 0; i < ARRAY_SIZE(shown); i++) {
		heir_goes_on(&h, fx, estate_of(&all, find(&all, HANDOVER_SAVED, 0, i), &nonsense));
		fx_expect(fx, TOP "state", "idle\n");
		fx_expect_in(fx, shown[i], "\"failed\"");
		fx_expect_in(fx, shown[i], "can't be had");
		heir_go(&h);
	}
	inventory_clear(&all);
}

/* There was no room to look at what was saved: none of it is lost for that, and another one is to try. */
static void test_saved_unseen(void **state)
{
	static const int passes[] = {-ENOMEM, -EMFILE, -ENFILE};
	struct fixture *fx = *state;
	struct heir h;
	struct all all;

	fx_asleep(fx);
	inventory_write(fx->fs, &all);
	for (size_t i = 0; i < ARRAY_SIZE(passes); i++) {
		saved_err = passes[i];
		heir_come(&h, fx, estate_of(&all, NULL, NULL));
		saved_err = 0;
		assert_int_equal(h.result, passes[i]);
		heir_go(&h);
	}
	heir_goes_on(&h, fx, estate_of(&all, NULL, NULL));
	fx_expect(fx, TOP "state", "asleep\n");
	heir_go(&h);
	inventory_clear(&all);
}

/* What the sandbox of a lost session was to be told lies beside its record, and is nobody's then. */
static void test_bytes(void **state)
{
	const struct record bytes = {
		.kind = HANDOVER_BYTES, .key = 7, .fields = record_reader("bytes", 5)};
	struct fixture *fx = *state;
	struct heir h;
	struct all all;

	(void)fx_run(fx, "x");
	inventory_write(fx->fs, &all);
	inventory_add(&all, &bytes, 3);
	heir_come(&h, fx, estate_of(&all, find(&all, KEEP_SESSION, 0, 0), &nonsense));
	assert_int_equal(h.result, 0);
	assert_true(estate_has(h.e, HANDOVER_BYTES, 7, 3));
	heir_commit(&h);
	heir_serve(&h);
	assert_false(estate_has(h.e, HANDOVER_BYTES, 7, 3));
	heir_expect_clean(&h);
	heir_go(&h);
	inventory_clear(&all);
}

/* Of a handle only that is lost, and nobody gets its number. */
static void test_handle(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, TOP "state", O_RDONLY),
		    g = fx_opened(fx, TOP "error", O_RDONLY), again;
	struct heir h;
	struct all all;

	inventory_write(fx->fs, &all);
	heir_come(&h, fx, estate_of(&all, find(&all, HANDOVER_HANDLE, f.fh, 0), &nonsense));
	assert_int_equal(h.result, 0);
	assert_int_equal(h.two.fs->inherited.lost_handles, 1);
	heir_serve(&h);
	assert_error(fx_read(fx, &f, 10, 0), -EIO);
	assert_bytes(fx_read(fx, &g, 10, 0), "");
	again = fx_opened(fx, TOP "state", O_RDONLY);
	assert_true(again.fh != f.fh);
	assert_int_equal((uint32_t)again.fh, (uint32_t)f.fh);
	fx_close(fx, &again);
	fx_close(fx, &g);
	heir_go(&h);
	inventory_clear(&all);
	fx_close(fx, &f);
	fx_close(fx, &g);
}

/* Whoever takes over from a daemon that serves refuses all of it: that goes on, and has lost nothing. */
static void test_stream(void **state)
{
	struct fixture *fx = *state;
	struct problem why = {0};
	struct heir h;
	struct all all;

	inventory_write(fx->fs, &all);
	h = (struct heir){.fx = fx, .fds = {.owned = true}};
	second_begin(&h.two, fx);
	h.two.fs->vm = fx->fs->vm;
	assert_int_equal(fdbag_put(&h.fds, dup(fx->fs->depot.fd)), 1);
	h.e = estate_of(&all, find(&all, KEEP_SESSION, 0, 0), &nonsense);
	assert_int_equal(handover_each(h.e, heir_on_record, &h), -EBADMSG);
	(void)handover_join(h.two.fs, &why);
	fdbag_clear(&h.fds);
	heir_go(&h);
	inventory_clear(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_left),   fx_test(test_gone),	 fx_test(test_sandbox),
		fx_test(test_saved),  fx_test(test_saved_waits), fx_test(test_saved_unseen),
		fx_test(test_handle), fx_test(test_stream),	 fx_test(test_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
