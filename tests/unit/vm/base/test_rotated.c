/* SPDX-License-Identifier: Apache-2.0 */
/* Files that lines are appended to: whole lines, the last one found again, older files, files that somebody takes away. */
/* modules: vm/base/rotated.c */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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
	static const char *const suffix[] = {"", ".1", ".2", ".3", ".away", ".link"};
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
	assert_int_equal(rotated_open(&r, path, 0, 1, 0), 0);
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
	assert_int_equal(rotated_open(&r, path, 0, 1, ROTATED_SYNC), 0);
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
	assert_int_equal(rotated_open(&r, path, 0, 1, 0), 0);
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
	assert_int_equal(rotated_open(&r, path, 0, 1, 0), 0);
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
	assert_int_equal(rotated_open(&r, path, 8, 2, 0), 0);
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
	assert_int_equal(rotated_open(&r, path, 1000, 2, 0), 0);
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
	assert_int_equal(rotated_open(&r, path, 0, 2, 0), 0);
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
	assert_int_equal(rotated_open(&r, other, 0, 1, 0), -ELOOP);
	rotated_close(&r);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(rotated_open(&r, path, 0, 1, 0), -EINVAL);
	rotated_close(&r);
	assert_int_equal(rotated_open(&r, dir, 0, 1, 0), -EISDIR);
	rotated_close(&r);
	assert_int_equal(rotated_open(&r, "relative", 0, 1, 0), -EINVAL);
	rotated_close(&r);
}

static void test_reserves(void **state)
{
	struct rotated r;
	struct stat st;

	(void)state;
	assert_int_equal(rotated_open(&r, path, 0, 1, 0), 0);
	assert_int_equal(rotated_reserve(&r, 4096), 0);
	assert_int_equal(fstat(r.fd, &st), 0);
	assert_int_equal(st.st_size, 0);
	put(&r, "x\n");
	expect("", "x\n");
	rotated_close(&r);
}

/* Two that append would cut each other's lines. */
static void test_locks(void **state)
{
	for (unsigned most = 0; most <= 8; most += 8) {
		struct rotated r, other, heir;

		(void)state;
		assert_int_equal(rotated_open(&r, path, most, 1, 0), 0);
		put(&r, "aaa\n");
		assert_int_equal(rotated_open(&other, path, most, 1, 0), -EBUSY);
		assert_int_equal(rotated_append(&other, "no\n", 3), -EBUSY);
		/* One that was begun by rotating as well. */
		put(&r, "bbbbbb\n");
		assert_int_equal(rotated_append(&other, "no\n", 3), -EBUSY);
		expect("", most ? "bbbbbb\n" : "aaa\nbbbbbb\n");
		assert_int_equal(rotated_open(&heir, path, most, 1, ROTATED_HEIR), 0);
		assert_int_equal(rotated_own(&heir, 1), -EBUSY);
		assert_int_equal(rotated_append(&heir, "no\n", 3), -EBUSY);
		rotated_close(&heir);
		/* The one before rotates and writes while the heir is there. */
		assert_int_equal(rotated_open(&heir, path, most, 1, ROTATED_HEIR), 0);
		put(&r, "ccccc\n");
		rotated_close(&r);
		assert_int_equal(rotated_own(&heir, 1), 0);
		put(&heir, "d\n");
		expect("", most ? "ccccc\nd\n" : "aaa\nbbbbbb\nccccc\nd\n");
		assert_int_equal(rotated_append(&other, "no\n", 3), -EBUSY);
		rotated_close(&heir);
		put(&other, "e\n"); /* it tries again */
		rotated_close(&other);
		assert_int_equal(unlink(path), 0);
	}
}

/* What could not be opened is tried again with each line. */
static void test_comes_later(void **state)
{
	struct rotated r;

	(void)state;
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(rotated_open(&r, path, 8, 1, ROTATED_HEIR), -EISDIR);
	assert_int_equal(rotated_own(&r, 1), -EISDIR);
	assert_int_equal(rotated_append(&r, "no\n", 3), -EISDIR);
	assert_int_equal(rmdir(path), 0);
	put(&r, "yes\n");
	expect("", "yes\n");
	rotated_close(&r);
}

/* With something in the way it grows, and no older one is touched. */
static void test_stuck(void **state)
{
	struct rotated r;
	char away[128], name[128];

	(void)state;
	assert_int_equal(rotated_open(&r, path, 4, 3, 0), 0);
	put(&r, "aaa\n");
	put(&r, "bbb\n");
	put(&r, "ccc\n");
	rotated_close(&r);
	expect(".1", "bbb\n");
	expect(".2", "aaa\n");
	snprintf(name, sizeof(name), "%s.3", path);
	assert_int_equal(mkdir(name, 0700), 0);
	snprintf(away, sizeof(away), "%s.3/x", path);
	assert_int_equal(mkdir(away, 0700), 0);
	assert_int_equal(rotated_open(&r, path, 4, 3, 0), 0);
	put(&r, "ddd\n");
	put(&r, "eee\n");
	assert_int_not_equal(r.stuck, 0);
	expect("", "ccc\nddd\neee\n");
	expect(".1", "bbb\n");
	expect(".2", "aaa\n");
	assert_int_equal(rmdir(away), 0);
	assert_int_equal(rmdir(name), 0);
	put(&r, "fff\n");
	assert_int_equal(r.stuck, 0);
	expect("", "fff\n");
	expect(".1", "ccc\nddd\neee\n");
	expect(".2", "bbb\n");
	expect(".3", "aaa\n");
	rotated_close(&r);
	assert_int_equal(unlink(name), 0);
}

/* The newest can't be moved: what is older is moved once at most, and only the oldest goes. */
static void test_cant_be_moved(void **state)
{
	struct rotated r;
	char name[128], inside[128];

	(void)state;
	snprintf(name, sizeof(name), "%s.1", path);
	snprintf(inside, sizeof(inside), "%s.1/x", path);
	assert_int_equal(mkdir(name, 0700), 0);
	assert_int_equal(mkdir(inside, 0700), 0);
	assert_int_equal(rotated_open(&r, path, 4, 1, 0), 0);
	put(&r, "aaa\n");
	put(&r, "bbb\n");
	put(&r, "ccc\n");
	assert_int_equal(r.stuck, -EISDIR);
	expect("", "aaa\nbbb\nccc\n");
	assert_int_equal(rmdir(inside), 0);
	assert_int_equal(rmdir(name), 0);
	put(&r, "ddd\n");
	expect("", "ddd\n");
	expect(".1", "aaa\nbbb\nccc\n");
	rotated_close(&r);
}

/* A file that has none yet goes on behind the one before. */
static void test_last_of_older(void **state)
{
	struct rotated r;
	char one[128], line[8];

	(void)state;
	snprintf(one, sizeof(one), "%s.1", path);
	assert_int_equal(rotated_open(&r, path, 100, 2, 0), 0);
	put(&r, "aaa\n");
	put(&r, "bbb\n");
	rotated_close(&r);
	assert_int_equal(rename(path, one), 0);
	assert_int_equal(rotated_open(&r, path, 100, 2, 0), 0);
	assert_int_equal(rotated_last(&r, line, sizeof(line)), 3);
	assert_string_equal(line, "bbb");
	put(&r, "cc\n");
	assert_int_equal(rotated_last(&r, line, sizeof(line)), 2);
	assert_int_equal(truncate(path, 0), 0);
	rotated_close(&r);
	/* Hostile ones are none. */
	assert_int_equal(unlink(one), 0);
	assert_int_equal(mkfifo(one, 0600), 0);
	assert_int_equal(rotated_open(&r, path, 100, 2, 0), 0);
	assert_int_equal(rotated_last(&r, line, sizeof(line)), 0);
	rotated_close(&r);
}

/* Whether the file can only be appended to. Return: false: that can't be had here. */
static bool set_append_only(bool on)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), flags = 0, e;

	assert_true(fd >= 0);
	e = ioctl(fd, FS_IOC_GETFLAGS, &flags);
	flags = on ? flags | FS_APPEND_FL : flags & ~FS_APPEND_FL;
	if (e == 0)
		e = ioctl(fd, FS_IOC_SETFLAGS, &flags);
	close(fd);
	return e == 0;
}

/* The file itself can't be moved: however often that is tried, those that are older stay, but the oldest. */
static void test_append_only(void **state)
{
	struct rotated r;

	(void)state;
	assert_int_equal(rotated_open(&r, path, 4, 3, 0), 0);
	put(&r, "000\n");
	put(&r, "aaa\n");
	put(&r, "bbb\n");
	put(&r, "ccc\n");
	if (!set_append_only(true)) {
		rotated_close(&r);
		print_message("no file can be made append-only here\n");
		skip();
	}
	for (unsigned i = 0; i < 5; i++)
		put(&r, "ddd\n");
	assert_int_equal(r.stuck, -EPERM);
	expect("", "ccc\nddd\nddd\nddd\nddd\nddd\n");
	expect(".1", NULL);
	expect(".2", "bbb\n");
	expect(".3", "aaa\n");
	assert_true(set_append_only(false));
	put(&r, "eee\n");
	expect("", "eee\n");
	expect(".1", "ccc\nddd\nddd\nddd\nddd\nddd\n");
	expect(".2", "bbb\n");
	expect(".3", "aaa\n");
	rotated_close(&r);
}

/* A gap is as far as older ones are moved. */
static void test_gap(void **state)
{
	struct rotated r;
	char one[128];

	(void)state;
	snprintf(one, sizeof(one), "%s.1", path);
	assert_int_equal(rotated_open(&r, path, 4, 2, 0), 0);
	put(&r, "aaa\n");
	put(&r, "bbb\n");
	put(&r, "ccc\n");
	expect(".2", "aaa\n");
	assert_int_equal(unlink(one), 0);
	put(&r, "ddd\n");
	expect(".1", "ccc\n");
	expect(".2", "aaa\n");
	rotated_close(&r);
}

/* Room is had in the file that the line goes to, and where that ends now. */
static void test_reserves_behind(void **state)
{
	struct rotated r;
	struct stat st;

	(void)state;
	assert_int_equal(rotated_open(&r, path, 8, 1, 0), 0);
	put(&r, "aaa\n");
	assert_int_equal(rotated_reserve(&r, 4096), 0);
	expect(".1", "aaa\n");
	expect("", "");
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_blocks * 512 >= 4096);
	put(&r, "bbb\n");
	expect("", "bbb\n");
	rotated_close(&r);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rotated_open(&r, path, 0, 1, 0), 0);
	put(&r, "aaa\n");
	assert_int_equal(rotated_reserve(&r, 4096), 0);
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(rotated_reserve(&r, 4096), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_blocks * 512 >= 4096);
	assert_int_equal(r.size, 0);
	rotated_close(&r);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_appends),	TEST(test_half_a_line),	  TEST(test_long_lines),
		TEST(test_rotates),	TEST(test_taken_away),	  TEST(test_refused),
		TEST(test_reserves),	TEST(test_locks),	  TEST(test_comes_later),
		TEST(test_stuck),	TEST(test_cant_be_moved), TEST(test_gap),
		TEST(test_append_only), TEST(test_last_of_older), TEST(test_reserves_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
