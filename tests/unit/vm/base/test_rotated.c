/* SPDX-License-Identifier: Apache-2.0 */
/* Files that lines are appended to: whole lines, the last one found again, older files, files that somebody takes away. */
/* modules: vm/base/rotated.c */
#include <errno.h>
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

#include "vm/base/rotated.h"
#include "vm/base/util.h"

static char dir[64], path[96];

static int begin(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/rotated.XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/log", dir);
	return 0;
}

static int end(void **state)
{
	static const char *const suffix[] = {"", ".1", ".2", ".away", ".link"};
	char name[128];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(suffix); i++) {
		snprintf(name, sizeof(name), "%s%s", path, suffix[i]);
		(void)unlink(name);
	}
	return rmdir(dir);
}

static void put(struct rotated *r, const char *line)
{
	assert_int_equal(rotated_append(r, line, strlen(line)), 0);
}

static void expect(const char *suffix, const char *text)
{
	char name[128], got[256] = "";
	FILE *f;

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	f = fopen(name, "r");
	if (!text) {
		assert_null(f);
		return;
	}
	assert_non_null(f);
	(void)!fread(got, 1, sizeof(got) - 1, f);
	fclose(f);
	assert_string_equal(got, text);
}

static void test_appends(void **state)
{
	struct rotated r;
	struct stat st;
	char line[8];

	(void)state;
	assert_int_equal(rotated_open(&r, path, 0, 1, false), 0);
	assert_true(r.is_new);
	assert_int_equal(rotated_last(&r, line, sizeof(line)), 0);
	put(&r, "one\n");
	put(&r, "two and more\n");
	assert_int_equal(rotated_last(&r, line, sizeof(line)), 7);
	assert_string_equal(line, "two and");
	rotated_close(&r);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	expect("", "one\ntwo and more\n");
	assert_int_equal(rotated_open(&r, path, 0, 1, true), 0);
	assert_false(r.is_new);
	put(&r, "three\n");
	rotated_close(&r);
	expect("", "one\ntwo and more\nthree\n");
}

static void test_half_a_line(void **state)
{
	struct rotated r;
	char line[32];
	FILE *f = fopen(path, "w");

	(void)state;
	assert_non_null(f);
	fputs("whole\nhal", f);
	fclose(f);
	assert_int_equal(rotated_open(&r, path, 0, 1, false), 0);
	assert_int_equal(rotated_last(&r, line, sizeof(line)), 5);
	assert_string_equal(line, "whole");
	put(&r, "next\n");
	put(&r, "last\n");
	rotated_close(&r);
	expect("", "whole\nhal\nnext\nlast\n");
}

static void test_long_lines(void **state)
{
	static char much[100000];
	struct rotated r;
	char line[8];

	(void)state;
	memset(much, 'x', sizeof(much) - 2);
	much[0] = '^';
	much[sizeof(much) - 2] = '\n';
	assert_int_equal(rotated_open(&r, path, 0, 1, false), 0);
	put(&r, much);
	assert_int_equal(rotated_last(&r, line, sizeof(line)), 7);
	assert_string_equal(line, "^xxxxxx");
	put(&r, much);
	assert_int_equal(rotated_last(&r, line, sizeof(line)), 7);
	assert_string_equal(line, "^xxxxxx");
	rotated_close(&r);
}

static void test_rotates(void **state)
{
	struct rotated r;

	(void)state;
	assert_int_equal(rotated_open(&r, path, 8, 2, false), 0);
	put(&r, "aaa\n");
	put(&r, "bbb\n");
	expect(".1", NULL);
	put(&r, "longer than allowed\n");
	expect("", "longer than allowed\n");
	put(&r, "ccc\n");
	put(&r, "ddd\n");
	put(&r, "eee\n");
	expect("", "eee\n");
	expect(".1", "ccc\nddd\n");
	expect(".2", "longer than allowed\n");
	expect(".3", NULL);
	rotated_close(&r);
}

static void test_taken_away(void **state)
{
	struct rotated r;
	char away[128];

	(void)state;
	snprintf(away, sizeof(away), "%s.away", path);
	assert_int_equal(rotated_open(&r, path, 1000, 2, false), 0);
	put(&r, "one\n");
	assert_int_equal(rename(path, away), 0);
	put(&r, "two\n");
	expect(".away", "one\n");
	expect("", "two\n");
	assert_int_equal(truncate(path, 0), 0);
	put(&r, "three\n");
	expect("", "three\n");
	rotated_close(&r);
	/* Without a directory, names are not looked at. */
	assert_int_equal(rotated_open(&r, path, 0, 2, false), 0);
	assert_int_equal(rename(path, away), 0);
	put(&r, "four\n");
	expect(".away", "three\nfour\n");
	expect("", NULL);
	rotated_close(&r);
}

static void test_refused(void **state)
{
	struct rotated r;
	char other[128];

	(void)state;
	snprintf(other, sizeof(other), "%s.link", path);
	assert_int_equal(symlink("/dev/null", other), 0);
	assert_int_equal(rotated_open(&r, other, 0, 1, false), -ELOOP);
	rotated_close(&r);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(rotated_open(&r, path, 0, 1, false), -EINVAL);
	rotated_close(&r);
	assert_int_equal(rotated_open(&r, dir, 0, 1, false), -EISDIR);
	rotated_close(&r);
	assert_int_equal(rotated_open(&r, "relative", 0, 1, false), -EINVAL);
	rotated_close(&r);
}

static void test_reserves(void **state)
{
	struct rotated r;
	struct stat st;

	(void)state;
	assert_int_equal(rotated_open(&r, path, 0, 1, false), 0);
	assert_int_equal(rotated_reserve(&r, 4096), 0);
	assert_int_equal(fstat(r.fd, &st), 0);
	assert_int_equal(st.st_size, 0);
	put(&r, "x\n");
	expect("", "x\n");
	rotated_close(&r);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_appends),  TEST(test_half_a_line), TEST(test_long_lines),
		TEST(test_rotates),  TEST(test_taken_away),  TEST(test_refused),
		TEST(test_reserves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
