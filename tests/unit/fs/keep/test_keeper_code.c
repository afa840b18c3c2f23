/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping sessions: long code is written once, beside the record. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/vault_fake.c tests/unit/fixture/keeper_fixture.c vm/base/record.c vm/base/remove.c */
/* modules: fs/keep/aside.c fs/keep/policy.c fs/keep/code.c fs/keep/front.c fs/keep/job.c fs/keep/join.c fs/keep/lasting.c fs/keep/live.c fs/keep/output.c fs/keep/run.c fs/keep/replay.c fs/keep/revive.c fs/keep/session.c fs/keep/sound.c fs/keep/value.c vm/base/problem_record.c fs/keep/keeper.c fs/keep/keeper_held.c fs/keep/keeper_item.c fs/keep/keeper_write.c fs/keep/keeper_load.c fs/keep/keeper_removal.c fs/keep/keeper_end.c fs/keep/reserve.c fs/keep/store.c fs/keep/keeper_accounts.c */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/keep/keeper.h"
#include "fs/keep/keeper_internal.h"
#include "tests/unit/fixture/fixture.h"
#include "tests/unit/fixture/keeper_fixture.h"
#include "tests/unit/fixture/vault_fake.h"

#define TOP "python/demo/"

static struct timespec made; /* when demo was */

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
	struct kf_next n;

	fx_put(fx, TOP "in", "short");
	fake_exit(s, VM_DONE, 0);
	kf_written();
	code_path(path, kf_state, "r1.code");
	assert_int_equal(stat(path, &before), 0);
	kf_next_begin(&n, fx);
	expect_code(session_run(kf_found(&n, "demo"), 1), long_code);
	assert_int_equal(session_run(kf_found(&n, "demo"), 1)->code.len, strlen(long_code));
	assert_true(session_run(kf_found(&n, "demo"), 1)->code_kept);
	assert_int_equal(session_run(kf_found(&n, "demo"), 2)->code.len, 5);
	kf_next_end(&n);
	fx_put(fx, TOP "in", "three");
	fake_exit(s, VM_DONE, 0);
	kf_written();
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_int_equal(fx_rmdir(fx, TOP "runs/1"), 0);
	kf_written();
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
		kf_written();
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
	struct kf_next n;
	FILE *f;

	fx_put(fx, TOP "in", long_code);
	fake_exit(s, VM_DONE, 0);
	fx_put(fx, TOP "in", long_code);
	fake_exit(s, VM_DONE, 0);
	kf_written();
	code_path(path, kf_state, "r1.code");
	assert_int_equal(unlink(path), 0);
	code_path(path, kf_state, "r2.code");
	f = fopen(path, "r+");
	assert_non_null(f);
	assert_int_equal(fseek(f, 1000, SEEK_SET), 0);
	assert_int_equal(fputc('x', f), 'x');
	fclose(f);
	kf_next_begin(&n, fx);
	assert_int_equal(problem_kept(&kf_found(&n, "demo")->front.error)->code, PROBLEM_NOT_KEPT);
	assert_non_null(strstr(problem_kept(&kf_found(&n, "demo")->front.error)->cause,
			       "its files and variables are lost; the code of run 1 can't be"));
	for (unsigned i = 1; i <= 3; i++) {
		const struct run *r = session_run(kf_found(&n, "demo"), i);

		assert_int_equal(r->state, RUN_DONE);
		assert_int_equal(r->code_lost, i < 3 ? strlen(long_code) : 0);
		assert_int_equal(r->code.len, i < 3 ? 0 : strlen(long_code));
	}
	/* What there is of it stays, for another time. */
	keeping_changed(kf_found(&n, "demo"));
	session_used(kf_found(&n, "demo"));
	kf_written();
	code_path(path, n.state, "r2.code");
	assert_int_equal(access(path, F_OK), 0);
	kf_next_end(&n);
	/* That of another run is not this one's. */
	code_path(path, kf_state, "r3.code");
	code_path(other, kf_state, "r2.code");
	assert_int_equal(unlink(other), 0);
	assert_int_equal(link(path, other), 0);
	kf_next_begin(&n, fx);
	assert_int_equal(session_run(kf_found(&n, "demo"), 2)->code_lost, strlen(long_code));
	assert_int_equal(session_run(kf_found(&n, "demo"), 3)->code_lost, 0);
	kf_next_end(&n);
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

	snprintf(path, sizeof(path), "%s/version", kf_state);
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
	struct kf_next n;
	FILE *f;

	run_long(fx);
	kf_written();
	of = keeper_name(fx_demo(fx));
	assert_int_equal(keep_put(&record, fx_demo(fx), &io), 0);
	assert_true(record.len > strlen(long_code));
	assert_int_equal(store_settle(store_stage(st, &of, record.data, record.len)), 0);
	assert_int_equal(store_publish(st, &of), 0);
	store_trim_outputs(st, &of, NULL, 0);
	write_version("1\n");
	kf_next_begin(&n, fx);
	assert_int_equal(n.k->store.version, 1);
	expect_code(session_run(kf_found(&n, "demo"), 1), long_code);
	code_path(path, n.state, "r1.code");
	assert_int_equal(access(path, F_OK), -1);
	keeping_changed(kf_found(&n, "demo"));
	kf_written();
	assert_int_equal(access(path, F_OK), 0);
	snprintf(path, sizeof(path), "%s/version", n.state);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	assert_string_equal(text, "2\n");
	kf_next_end(&n);
	buf_clear(&record);
}
int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_long_code, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_much_code, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_damaged_code, kf_setup, kf_teardown),
		cmocka_unit_test_setup_teardown(test_version_1, kf_setup, kf_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
