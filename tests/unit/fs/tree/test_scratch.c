/* SPDX-License-Identifier: Apache-2.0 */
/* Scratch files: how editors and copying tools write `in`, `stdin` and `config`. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <stdio.h>

#include "tests/unit/fixture/fixture.h"

#define TOP "python/demo/"

static struct session *demo(struct bed *b)
{
	return session_find(b->fs, 0, "demo");
}

static void test_backup_and_new_file(void **state)
{
	struct bed *b = *state;

	bed_put(b, TOP "in", "old");
	/* vim with a backup: `in` moves away, is made anew, the backup goes */
	assert_int_equal(bed_rename(b, TOP "in", TOP "in~", 0), 0);
	assert_false(bed_exists(b, TOP "in"));
	assert_null(strstr(bed_ls(b, "python/demo"), " in "));
	bed_expect(b, TOP "in~", "old");
	assert_int_equal(bed_rename(b, TOP "in", TOP "in2", 0), -ENOENT);
	assert_int_equal(bed_put(b, TOP "in", "new"), 0);
	assert_int_equal(bed_unlink(b, TOP "in~"), 0);
	assert_int_equal(demo(b)->last_number, 2);
	bed_expect(b, TOP "in", "new");

	/* install(1): unlinks first */
	assert_int_equal(bed_unlink(b, TOP "in"), 0);
	assert_false(bed_exists(b, TOP "in"));
	assert_int_equal(bed_put(b, TOP "in", "newer"), 0);
	assert_int_equal(demo(b)->last_number, 3);
	/* Away and back again: what comes back is a program, and runs. */
	assert_int_equal(bed_rename(b, TOP "in", TOP "x", 0), 0);
	assert_int_equal(bed_rename(b, TOP "x", TOP "in", 0), 0);
	assert_int_equal(demo(b)->last_number, 4);
}

static void test_rename_onto_others(void **state)
{
	struct bed *b = *state;

	bed_put(b, TOP "t", "cpus = 2\n");
	assert_int_equal(bed_rename(b, TOP "t", TOP "config", 0), 0);
	assert_int_equal(demo(b)->settings.spec.cpus, 2);
	bed_put(b, TOP "t", "bad\n");
	assert_int_equal(bed_rename(b, TOP "t", TOP "config", 0), -EINVAL);
	assert_true(bed_exists(b, TOP "t"));
	assert_int_equal(demo(b)->settings.spec.cpus, 2);
	assert_int_equal(bed_rename(b, TOP "t", TOP "stdin", 0), 0);
	assert_int_equal(bed_size(b, TOP "stdin"), 4);
	bed_put(b, TOP "t", "x");
	assert_int_equal(bed_rename(b, TOP "t", TOP "stdout", 0), -EPERM);
	assert_int_equal(bed_rename(b, TOP "t", TOP "runs", 0), -EPERM);
	assert_int_equal(bed_rename(b, TOP "stdout", TOP "u", 0), -EPERM);
	assert_int_equal(bed_rename(b, TOP "config", TOP "in", 0), -EPERM);
	assert_int_equal(bed_rename(b, TOP "nothing", TOP "in", 0), -ENOENT);
	assert_int_equal(bed_rename(b, TOP "t", TOP "runs/t", 0), -EXDEV);
	assert_int_equal(bed_rename(b, TOP "t", "raw/t", 0), -EXDEV);
	assert_int_equal(bed_rename(b, "python/demo", "python/other", 0), -EPERM);
	bed_mkdir(b, "python/two");
	assert_int_equal(bed_rename(b, TOP "t", "python/two/in", 0), -EXDEV);
}

static void test_rename_among_themselves(void **state)
{
	struct bed *b = *state;

	bed_put(b, TOP "a", "A");
	bed_put(b, TOP "b", "B");
	assert_int_equal(bed_rename(b, TOP "a", TOP "b", RENAME_NOREPLACE), -EEXIST);
	assert_int_equal(bed_rename(b, TOP "a", TOP "in", RENAME_NOREPLACE), -EEXIST);
	assert_int_equal(bed_rename(b, TOP "a", TOP "b", RENAME_EXCHANGE), -EINVAL);
	assert_int_equal(bed_rename(b, TOP "a", TOP "a", 0), 0);
	assert_int_equal(bed_rename(b, TOP "a", TOP "b", 0), 0);
	assert_false(bed_exists(b, TOP "a"));
	bed_expect(b, TOP "b", "A");
	bed_unlink(b, TOP "in");
	assert_int_equal(bed_rename(b, TOP "b", TOP "in", RENAME_NOREPLACE), 0);
	bed_expect(b, TOP "in", "A");
}

static void test_refused_renames_keep_the_file(void **state)
{
	struct bed *b = *state;
	struct file f = bed_opened(b, TOP "t", O_WRONLY | O_CREAT);

	assert_int_equal(bed_write_bytes(b, &f, "a\0b", 3), 0); /* fine here */
	bed_close(b, &f);
	assert_int_equal(bed_rename(b, TOP "t", TOP "in", 0), -EINVAL);
	assert_int_equal(bed_size(b, TOP "t"), 3);
	bed_put(b, TOP "t", "x");
	bed_put(b, TOP "ctl", "close\n");
	assert_int_equal(bed_rename(b, TOP "t", TOP "in", 0), -ESTALE);
	bed_put(b, TOP "ctl", "reset\n");
	assert_int_equal(bed_rename(b, TOP "t", TOP "in", 0), 0);
	bed_put(b, TOP "t", "");
	assert_int_equal(bed_rename(b, TOP "t", TOP "in", 0), 0); /* no program, no run */
	assert_int_equal(demo(b)->last_number, 1);
}

static void test_limits(void **state)
{
	struct bed *b = *state;
	struct file f = bed_opened(b, TOP "big", O_RDWR | O_CREAT);
	char *mib = calloc(1, SCRATCH_SIZE_MAX), path[64];

	assert_int_equal(bed_write_bytes(b, &f, mib, SCRATCH_SIZE_MAX), 0);
	assert_int_equal(bed_write(b, &f, "x"), -EFBIG);
	assert_int_equal(bed_ftruncate(b, &f, SCRATCH_SIZE_MAX + 1), -EFBIG);
	assert_int_equal(bed_truncate(b, TOP "big", 1ull << 40), -EFBIG);
	assert_int_equal(bed_ftruncate(b, &f, 5), 0);
	assert_int_equal(bed_size(b, TOP "big"), 5);
	f.offset = 1ull << 60;
	assert_int_equal(bed_write(b, &f, "x"), -EFBIG);
	f.offset = 7;
	assert_int_equal(bed_write(b, &f, "x"), 0);
	assert_int_equal(bed_size(b, TOP "big"), 8);
	for (unsigned i = 1; i < SCRATCH_FILES_MAX; i++) {
		snprintf(path, sizeof(path), TOP "t%u", i);
		assert_int_equal(bed_put(b, path, "x"), 0);
	}
	assert_int_equal(bed_put(b, TOP "more", "x"), -EDQUOT);
	bed_expect_error(b, "python/demo", "too-many-files");
	assert_int_equal(bed_unlink(b, TOP "big"), 0); /* still open: still counts */
	assert_int_equal(bed_put(b, TOP "more", "x"), -EDQUOT);
	bed_close(b, &f);
	assert_int_equal(bed_put(b, TOP "more", "x"), 0);
	free(mib);
}

/* A backup takes the place of the one before. */
static void test_backup_anew_at_the_limit(void **state)
{
	struct bed *b = *state;
	char path[64];

	bed_put(b, TOP "in", "new");
	for (unsigned i = 1; i < SCRATCH_FILES_MAX; i++) {
		snprintf(path, sizeof(path), TOP "t%u", i);
		assert_int_equal(bed_put(b, path, "x"), 0);
	}
	assert_int_equal(bed_put(b, TOP "in~", "old"), 0);
	assert_int_equal(bed_rename(b, TOP "in", TOP "more", 0), -EDQUOT);
	assert_int_equal(bed_rename(b, TOP "in", TOP "in~", 0), 0);
	bed_expect(b, TOP "in~", "new");
	assert_int_equal(bed_put(b, TOP "more", "x"), -EDQUOT);
}

static void test_unlinked_while_open(void **state)
{
	struct bed *b = *state;
	struct file f = bed_opened(b, TOP "t", O_RDWR | O_CREAT);
	struct stat st;

	bed_write(b, &f, "kept");
	assert_int_equal(bed_unlink(b, TOP "t"), 0);
	assert_int_equal(bed_unlink(b, TOP "t"), -ENOENT);
	assert_null(strstr(bed_ls(b, "python/demo"), " t "));
	assert_int_equal(bed_put(b, TOP "t", "another"), 0);
	f.offset = 0;
	assert_bytes(bed_read(b, &f, 10, 0), "kept");
	assert_int_equal(bed_stat_ino(b, f.ino, &st), 0);
	assert_int_equal(st.st_nlink, 0);
	bed_close(b, &f);
	assert_int_equal(bed_stat_ino(b, f.ino, &st), -ESTALE);
	bed_expect(b, TOP "t", "another");
	/* Renamed onto `in` while open: later writes go nowhere. */
	f = bed_opened(b, TOP "t", O_WRONLY);
	assert_int_equal(bed_rename(b, TOP "t", TOP "in", 0), 0);
	assert_int_equal(bed_write(b, &f, "ANOTHER"), 0);
	bed_close(b, &f);
	bed_expect(b, TOP "in", "another");
	assert_int_equal(demo(b)->last_number, 1);
}

static void test_open_outlives_session(void **state)
{
	struct bed *b = *state;
	struct file f = bed_opened(b, TOP "t", O_RDWR | O_CREAT);

	bed_write(b, &f, "x");
	bed_rmdir(b, "python/demo");
	f.offset = 0;
	assert_bytes(bed_read(b, &f, 10, 0), "x");
	assert_int_equal(bed_write(b, &f, "y"), -ESTALE);
	bed_close(b, &f);
}

static void test_names(void **state)
{
	struct bed *b = *state;

	assert_int_equal(bed_mkdir(b, TOP "dir"), -EPERM);
	assert_int_equal(bed_put(b, TOP "exit_code", "x"), -EPERM); /* before there is one */
	assert_int_equal(bed_put(b, "python/file", "x"), -EPERM);
	assert_int_equal(bed_put(b, "file", "x"), -EPERM);
	assert_int_equal(bed_put(b, TOP ".in.swp", "x"), 0);
	assert_int_equal(bed_unlink(b, "README.md"), -EPERM);
	assert_int_equal(bed_unlink(b, TOP "files"), -EISDIR);
	assert_int_equal(bed_rmdir(b, TOP "stdout"), -ENOTDIR);
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, bed_up, bed_down)
	const struct CMUnitTest tests[] = {
		test(test_backup_and_new_file),
		test(test_rename_onto_others),
		test(test_rename_among_themselves),
		test(test_refused_renames_keep_the_file),
		test(test_limits),
		test(test_backup_anew_at_the_limit),
		test(test_unlinked_while_open),
		test(test_open_outlives_session),
		test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
