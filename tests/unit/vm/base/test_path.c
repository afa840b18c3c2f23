/* SPDX-License-Identifier: Apache-2.0 */
/* Paths: what is below what; putting them together; making directories. */
/* modules: vm/base/path.c */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/path.h"
#include "vm/base/util.h"

static void below(void **state)
{
	static const struct {
		const char *path, *dir;
		bool below, within;
	} cases[] = {
		{"/a/b", "/a", true, true},	 {"/a/b/c", "/a", true, true},
		{"/a", "/a", false, true},	 {"/ab", "/a", false, false},
		{"/", "/a", false, false},	 {"/a", "/a/b", false, false},
		{"/a/bc", "/a/b", false, false}, {"/a", "/", true, true},
		{"/", "/", false, true},	 {"", "/a", false, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(path_is_below(cases[i].path, cases[i].dir), cases[i].below);
		assert_int_equal(path_is_within(cases[i].path, cases[i].dir), cases[i].within);
	}
}

static void joins(void **state)
{
	char path[PATH_MAX], longest[PATH_MAX];

	(void)state;
	assert_int_equal(path_join(path, "/a", ".tmp-", "b"), 0);
	assert_string_equal(path, "/a/.tmp-b");
	memset(longest, 'x', sizeof(longest));
	longest[PATH_MAX - 3] = '\0';
	assert_int_equal(path_join(path, "/a", "", longest), -ENAMETOOLONG);
	longest[PATH_MAX - 4] = '\0';
	assert_int_equal(path_join(path, "/a", "", longest), 0);
}

/* What does not fit is not another file. */
static void opens(void **state)
{
	char name[PATH_MAX + 8];
	FILE *f = path_open("/proc", "/self/stat");

	(void)state;
	assert_non_null(f);
	fclose(f);
	memset(name, '/', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_null(path_open("", name));
	assert_int_equal(errno, ENAMETOOLONG);
}

static void makes(void **state)
{
	char top[] = "/tmp/xsbx-test.XXXXXX", path[96];
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(top));
	snprintf(path, sizeof(path), "%s/a/b/c", top);
	assert_int_equal(path_make(path, 0700), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(path_make(path, 0700), 0);
	assert_int_equal(path_make("/proc/none/a", 0700), -ENOENT);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(rmdir(path), 0);
		*strrchr(path, '/') = '\0';
	}
}

static void makes_in(void **state)
{
	char top[] = "/tmp/xsbx-test.XXXXXX";
	struct stat st;
	int dir, fd;

	(void)state;
	assert_non_null(mkdtemp(top));
	dir = open(top, O_RDONLY | O_DIRECTORY);
	assert_true(dir >= 0);
	for (int i = 0; i < 2; i++) {
		fd = path_make_in(dir, "a");
		assert_true(fd >= 0);
		assert_int_equal(fstat(fd, &st), 0);
		assert_true(S_ISDIR(st.st_mode));
		assert_int_equal(st.st_mode & 07777, 0700);
		close(fd);
	}
	assert_int_equal(path_make_in(dir, "b/c"), -ENOENT);
	assert_int_equal(symlinkat("a", dir, "link"), 0);
	assert_int_equal(path_make_in(dir, "link"), -ENOTDIR);
	assert_int_equal(unlinkat(dir, "link", 0), 0);
	assert_int_equal(unlinkat(dir, "a", AT_REMOVEDIR), 0);
	close(dir);
	assert_int_equal(rmdir(top), 0);
}

static bool is_there(const char *path)
{
	return access(path, F_OK) == 0;
}

static void shares(void **state)
{
	char top[] = "/tmp/xsbx-test.XXXXXX", ours[64], theirs[64], in[80];

	(void)state;
	assert_non_null(mkdtemp(top));
	snprintf(ours, sizeof(ours), "%s/ours", top);
	snprintf(theirs, sizeof(theirs), "%s/theirs", top);
	snprintf(in, sizeof(in), "%s/in", ours);
	assert_int_equal(mkdir(theirs, 0700), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(path_make_shared(ours), 0);
		assert_int_equal(path_make_shared(theirs), 0);
	}
	assert_int_equal(mkdir(in, 0700), 0);
	path_leave_shared(ours);
	assert_true(is_there(ours)); /* somebody is in it */
	assert_int_equal(rmdir(in), 0);
	path_leave_shared(ours);
	path_leave_shared(theirs);
	assert_false(is_there(ours));
	assert_true(is_there(theirs));
	/* Nor does one go that everybody may use. */
	assert_int_equal(chmod(theirs, 01777), 0);
	path_leave_shared(theirs);
	assert_int_equal(rmdir(theirs), 0);
	assert_int_equal(rmdir(top), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(below),    cmocka_unit_test(joins),
					   cmocka_unit_test(opens),    cmocka_unit_test(makes),
					   cmocka_unit_test(makes_in), cmocka_unit_test(shares)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
