/* SPDX-License-Identifier: Apache-2.0 */
/* Scratch files: how editors and copying tools write `in`, `stdin` and `config`. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <stdio.h>

#include "fs/session/job.h"
#include "tests/unit/fixture/fixture.h"

#define TOP "python/demo/"

static void test_backup_and_new_file(void **state)
{
	struct fixture *fx = *state;

	fx_put(fx, TOP "in", "old");
	/* vim with a backup: `in` moves away, is made anew, the backup goes */
	assert_int_equal(fx_rename(fx, TOP "in", TOP "in~", 0), 0);
	assert_false(fx_exists(fx, TOP "in"));
	assert_null(strstr(fx_ls(fx, "python/demo"), " in "));
	fx_expect(fx, TOP "in~", "old");
	assert_int_equal(fx_rename(fx, TOP "in", TOP "in2", 0), -ENOENT);
	assert_int_equal(fx_put(fx, TOP "in", "new"), 0);
	assert_int_equal(fx_unlink(fx, TOP "in~"), 0);
	assert_int_equal(fx_demo(fx)->last_number, 2);
	fx_expect(fx, TOP "in", "new");

	/* install(1): unlinks first */
	assert_int_equal(fx_unlink(fx, TOP "in"), 0);
	assert_false(fx_exists(fx, TOP "in"));
	assert_int_equal(fx_put(fx, TOP "in", "newer"), 0);
	assert_int_equal(fx_demo(fx)->last_number, 3);
	/* Away and back again: what comes back is a program, and runs. */
	assert_int_equal(fx_rename(fx, TOP "in", TOP "x", 0), 0);
	assert_int_equal(fx_rename(fx, TOP "x", TOP "in", 0), 0);
	assert_int_equal(fx_demo(fx)->last_number, 4);
}

/* The same in a job's directory, which is what its files beside the nodes go with. */
static void test_jobs(void **state)
{
	struct fixture *fx = *state;
	struct job *j;

	fx_put(fx, TOP "in", "x"); /* there is a sandbox */
	assert_int_equal(fx_mkdir(fx, TOP "jobs/a"), 0);
	assert_int_equal(fx_mkdir(fx, TOP "jobs/b"), 0);
	assert_int_equal(fx_put(fx, TOP "jobs/a/t", "cwd = sub\n"), 0);
	assert_non_null(strstr(fx_ls(fx, TOP "jobs/a"), " t "));
	assert_null(strstr(fx_ls(fx, TOP "jobs/b"), " t "));
	assert_false(fx_exists(fx, TOP "t"));
	assert_int_equal(fx_rename(fx, TOP "jobs/a/t", TOP "jobs/a/config", 0), 0);
	j = job_find(fx_demo(fx), "a", false);
	assert_string_equal(j->settings.cwd, "sub");
	assert_int_equal(fx_put(fx, TOP "jobs/a/t", "argv = '\n"), 0);
	assert_int_equal(fx_rename(fx, TOP "jobs/a/t", TOP "jobs/a/config", 0), -EINVAL);
	fx_expect_error(fx, TOP "jobs/a", "invalid");
	assert_int_equal(fx_put(fx, TOP "jobs/a/t", "for stdin"), 0);
	assert_int_equal(fx_rename(fx, TOP "jobs/a/t", TOP "jobs/a/stdin", 0), 0);
	assert_int_equal(fx_put(fx, TOP "jobs/a/t", "code"), 0);
	assert_int_equal(fx_rename(fx, TOP "jobs/a/t", TOP "jobs/a/stdout", 0), -EPERM);
	assert_int_equal(fx_rename(fx, TOP "jobs/a/t", TOP "jobs/b/t", 0), 0);
	assert_int_equal(fx_rename(fx, TOP "jobs/b/t", TOP "jobs/a/in", 0), 0);
	assert_true(job_going(j));
	fx_expect(fx, TOP "jobs/a/in", "code");
	/* What was started stays what it is. */
	assert_int_equal(fx_put(fx, TOP "jobs/a/t", "more"), 0);
	assert_int_equal(fx_rename(fx, TOP "jobs/a/t", TOP "jobs/a/in", 0), -EBUSY);
	assert_int_equal(fx_rename(fx, TOP "jobs/a/t", TOP "jobs/a/stdin", 0), -EBUSY);
	/* A backup, and `in` anew. */
	assert_int_equal(fx_rename(fx, TOP "jobs/b/in", TOP "jobs/b/in~", 0), 0);
	assert_false(fx_exists(fx, TOP "jobs/b/in"));
	assert_int_equal(fx_put(fx, TOP "jobs/b/in", "anew"), 0);
	assert_true(job_going(job_find(fx_demo(fx), "b", false)));
	assert_int_equal(fx_unlink(fx, TOP "jobs/b/in~"), 0);
	/* They go with their directory. */
	assert_int_equal(fx_demo(fx)->scratch.n, 1);
	assert_int_equal(fx_rmdir(fx, TOP "jobs/a"), 0);
	assert_int_equal(fx_demo(fx)->scratch.n, 0);
}

static void test_rename_onto_others(void **state)
{
	struct fixture *fx = *state;

	fx_put(fx, TOP "t", "cpus = 2\n");
	assert_int_equal(fx_rename(fx, TOP "t", TOP "config", 0), 0);
	assert_int_equal(fx_demo(fx)->settings.spec.cpus, 2);
	fx_put(fx, TOP "t", "bad\n");
	assert_int_equal(fx_rename(fx, TOP "t", TOP "config", 0), -EINVAL);
	assert_true(fx_exists(fx, TOP "t"));
	assert_int_equal(fx_demo(fx)->settings.spec.cpus, 2);
	assert_int_equal(fx_rename(fx, TOP "t", TOP "stdin", 0), 0);
	assert_int_equal(fx_size(fx, TOP "stdin"), 4);
	fx_put(fx, TOP "t", "x");
	assert_int_equal(fx_rename(fx, TOP "t", TOP "stdout", 0), -EPERM);
	assert_int_equal(fx_rename(fx, TOP "t", TOP "runs", 0), -EPERM);
	assert_int_equal(fx_rename(fx, TOP "stdout", TOP "u", 0), -EPERM);
	assert_int_equal(fx_rename(fx, TOP "config", TOP "in", 0), -EPERM);
	assert_int_equal(fx_rename(fx, TOP "nothing", TOP "in", 0), -ENOENT);
	assert_int_equal(fx_rename(fx, TOP "t", TOP "runs/t", 0), -EXDEV);
	assert_int_equal(fx_rename(fx, TOP "t", "raw/t", 0), -EXDEV);
	assert_int_equal(fx_rename(fx, "python/demo", "python/other", 0), -EPERM);
	fx_mkdir(fx, "python/two");
	assert_int_equal(fx_rename(fx, TOP "t", "python/two/in", 0), -EXDEV);
}

static void test_rename_among_themselves(void **state)
{
	struct fixture *fx = *state;

	fx_put(fx, TOP "a", "A");
	fx_put(fx, TOP "b", "B");
	assert_int_equal(fx_rename(fx, TOP "a", TOP "b", RENAME_NOREPLACE), -EEXIST);
	assert_int_equal(fx_rename(fx, TOP "a", TOP "in", RENAME_NOREPLACE), -EEXIST);
	assert_int_equal(fx_rename(fx, TOP "a", TOP "b", RENAME_EXCHANGE), -EINVAL);
	assert_int_equal(fx_rename(fx, TOP "a", TOP "a", 0), 0);
	assert_int_equal(fx_rename(fx, TOP "a", TOP "b", 0), 0);
	assert_false(fx_exists(fx, TOP "a"));
	fx_expect(fx, TOP "b", "A");
	fx_unlink(fx, TOP "in");
	assert_int_equal(fx_rename(fx, TOP "b", TOP "in", RENAME_NOREPLACE), 0);
	fx_expect(fx, TOP "in", "A");
}

static void test_refused_renames_keep_the_file(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, TOP "t", O_WRONLY | O_CREAT);

	assert_int_equal(fx_write_bytes(fx, &f, "a\0b", 3), 0); /* fine here */
	fx_close(fx, &f);
	assert_int_equal(fx_rename(fx, TOP "t", TOP "in", 0), -EINVAL);
	assert_int_equal(fx_size(fx, TOP "t"), 3);
	fx_put(fx, TOP "t", "x");
	fx_put(fx, TOP "ctl", "close\n");
	assert_int_equal(fx_rename(fx, TOP "t", TOP "in", 0), -ESTALE);
	fx_put(fx, TOP "ctl", "reset\n");
	assert_int_equal(fx_rename(fx, TOP "t", TOP "in", 0), 0);
	fx_put(fx, TOP "t", "");
	assert_int_equal(fx_rename(fx, TOP "t", TOP "in", 0), 0); /* no program, no run */
	assert_int_equal(fx_demo(fx)->last_number, 1);
}

static void test_limits(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, TOP "big", O_RDWR | O_CREAT);
	char *mib = calloc(1, SCRATCH_SIZE_MAX), path[64];

	assert_int_equal(fx_write_bytes(fx, &f, mib, SCRATCH_SIZE_MAX), 0);
	assert_int_equal(fx_write(fx, &f, "x"), -EFBIG);
	fx_expect_error(fx, "python/demo", "too-long");
	session_problem(fx_demo(fx), NULL);
	assert_int_equal(fx_ftruncate(fx, &f, SCRATCH_SIZE_MAX + 1), -EFBIG);
	fx_expect_error(fx, "python/demo", "too-long");
	assert_int_equal(fx_truncate(fx, TOP "big", 1ull << 40), -EFBIG);
	assert_int_equal(fx_ftruncate(fx, &f, 5), 0);
	assert_int_equal(fx_size(fx, TOP "big"), 5);
	f.offset = 1ull << 60;
	assert_int_equal(fx_write(fx, &f, "x"), -EFBIG);
	f.offset = 7;
	assert_int_equal(fx_write(fx, &f, "x"), 0);
	assert_int_equal(fx_size(fx, TOP "big"), 8);
	for (unsigned i = 1; i < SCRATCH_FILES_MAX; i++) {
		snprintf(path, sizeof(path), TOP "t%u", i);
		assert_int_equal(fx_put(fx, path, "x"), 0);
	}
	assert_int_equal(fx_put(fx, TOP "more", "x"), -EDQUOT);
	fx_expect_error(fx, "python/demo", "too-many-files");
	assert_int_equal(fx_unlink(fx, TOP "big"), 0); /* still open: still counts */
	assert_int_equal(fx_put(fx, TOP "more", "x"), -EDQUOT);
	fx_close(fx, &f);
	assert_int_equal(fx_put(fx, TOP "more", "x"), 0);
	free(mib);
}

/* A backup takes the place of the one before. */
static void test_backup_anew_at_the_limit(void **state)
{
	struct fixture *fx = *state;
	char path[64];

	fx_put(fx, TOP "in", "new");
	for (unsigned i = 1; i < SCRATCH_FILES_MAX; i++) {
		snprintf(path, sizeof(path), TOP "t%u", i);
		assert_int_equal(fx_put(fx, path, "x"), 0);
	}
	assert_int_equal(fx_put(fx, TOP "in~", "old"), 0);
	assert_int_equal(fx_rename(fx, TOP "in", TOP "more", 0), -EDQUOT);
	assert_int_equal(fx_rename(fx, TOP "in", TOP "in~", 0), 0);
	fx_expect(fx, TOP "in~", "new");
	assert_int_equal(fx_put(fx, TOP "more", "x"), -EDQUOT);
}

static void test_unlinked_while_open(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, TOP "t", O_RDWR | O_CREAT);
	struct stat st;

	fx_write(fx, &f, "kept");
	assert_int_equal(fx_unlink(fx, TOP "t"), 0);
	assert_int_equal(fx_unlink(fx, TOP "t"), -ENOENT);
	assert_null(strstr(fx_ls(fx, "python/demo"), " t "));
	assert_int_equal(fx_put(fx, TOP "t", "another"), 0);
	f.offset = 0;
	assert_bytes(fx_read(fx, &f, 10, 0), "kept");
	assert_int_equal(fx_stat_ino(fx, f.ino, &st), 0);
	assert_int_equal(st.st_nlink, 0);
	fx_close(fx, &f);
	assert_int_equal(fx_stat_ino(fx, f.ino, &st), -ESTALE);
	fx_expect(fx, TOP "t", "another");
	/* Renamed onto `in` while open: later writes go nowhere. */
	f = fx_opened(fx, TOP "t", O_WRONLY);
	assert_int_equal(fx_rename(fx, TOP "t", TOP "in", 0), 0);
	assert_int_equal(fx_write(fx, &f, "ANOTHER"), 0);
	fx_close(fx, &f);
	fx_expect(fx, TOP "in", "another");
	assert_int_equal(fx_demo(fx)->last_number, 1);
}

static void test_open_outlives_session(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, TOP "t", O_RDWR | O_CREAT);

	fx_write(fx, &f, "x");
	fx_rmdir(fx, "python/demo");
	f.offset = 0;
	assert_bytes(fx_read(fx, &f, 10, 0), "x");
	assert_int_equal(fx_write(fx, &f, "y"), -ESTALE);
	fx_close(fx, &f);
}

static void test_names(void **state)
{
	struct fixture *fx = *state;

	assert_int_equal(fx_mkdir(fx, TOP "dir"), -EPERM);
	assert_int_equal(fx_put(fx, TOP "exit_code", "x"), -EPERM); /* before there is one */
	assert_int_equal(fx_put(fx, "python/file", "x"), -EPERM);
	assert_int_equal(fx_put(fx, "file", "x"), -EPERM);
	assert_int_equal(fx_put(fx, TOP ".in.swp", "x"), 0);
	assert_int_equal(fx_unlink(fx, "README.md"), -EPERM);
	assert_int_equal(fx_unlink(fx, TOP "files"), -EISDIR);
	assert_int_equal(fx_rmdir(fx, TOP "stdout"), -ENOTDIR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_backup_and_new_file),
		fx_test(test_jobs),
		fx_test(test_rename_onto_others),
		fx_test(test_rename_among_themselves),
		fx_test(test_refused_renames_keep_the_file),
		fx_test(test_limits),
		fx_test(test_backup_anew_at_the_limit),
		fx_test(test_unlinked_while_open),
		fx_test(test_open_outlives_session),
		fx_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
