/* SPDX-License-Identifier: Apache-2.0 */
/* Removing directories: all that is in them and nothing else, however it is nested. */
/* modules: vm/base/io.c vm/base/remove.c */
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

#include "vm/base/io.h"
#include "vm/base/remove.h"
#include "vm/base/util.h"

#define DEEP 1000

static char dir[64], path[PATH_MAX];

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/xsbx-test.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return access(dir, F_OK) < 0 ? 0 : remove_tree(dir);
}

static const char *in(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void put(const char *name)
{
	const int fd = open(in(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static void all_of_it(void **state)
{
	char name[32];

	(void)state;
	assert_int_equal(mkdir(in("top"), 0755), 0);
	assert_int_equal(mkdir(in("beside"), 0755), 0);
	put("beside/stays");
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "top/%d", i);
		assert_int_equal(mkdir(in(name), 0755), 0);
		snprintf(name, sizeof(name), "top/%d/file", i);
		put(name);
	}
	assert_int_equal(symlink("../beside", in("top/link")), 0);
	assert_int_equal(symlink("/nonexistent", in("top/dangling")), 0);
	assert_int_equal(mkfifo(in("top/pipe"), 0600), 0);
	assert_int_equal(remove_tree(in("top")), 0);
	assert_int_not_equal(access(in("top"), F_OK), 0);
	assert_int_equal(access(in("beside/stays"), F_OK), 0);
	/* A file, and what is not there. */
	assert_int_equal(remove_tree(in("beside/stays")), 0);
	assert_int_not_equal(access(in("beside/stays"), F_OK), 0);
	assert_int_equal(remove_tree(in("none")), -ENOENT);
}

/* Longer than any path, and beside what an earlier removal has left. */
static void deep(void **state)
{
	char name[32];
	int fd, next;

	(void)state;
	for (int i = 1; i < 20; i++) {
		snprintf(name, sizeof(name), ".moved-%d", i);
		if (i % 2)
			put(name);
		else
			assert_int_equal(mkdir(in(name), 0755), 0);
	}
	put(".moved-2/full");
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < DEEP; i++) {
		assert_int_equal(mkdirat(fd, "deeper-and-deeper", 0755), 0);
		close(openat(fd, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
		next = openat(fd, "deeper-and-deeper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	close(fd);
	assert_int_equal(remove_tree(dir), 0);
	assert_int_not_equal(access(dir, F_OK), 0);
}

/* What nobody is at any more goes; what is locked, young, of another name or no directory stays. */
static void abandoned(void **state)
{
	int lock;

	(void)state;
	assert_int_equal(mkdir(in(".new-1"), 0755), 0);
	assert_int_equal(mkdir(in(".new-2"), 0755), 0);
	assert_int_equal(mkdir(in("new-3"), 0755), 0);
	put(".new-4");
	lock = fileio_lock(in(".new-2"));
	assert_true(lock >= 0);
	assert_int_equal(fileio_lock(in(".new-2")), -EAGAIN);
	assert_int_equal(fileio_lock(in(".new-5")), -ENOENT);
	remove_abandoned(dir, ".new-", 3600);
	assert_int_equal(access(in(".new-1"), F_OK), 0);
	remove_abandoned(dir, ".new-", 0);
	assert_int_not_equal(access(in(".new-1"), F_OK), 0);
	assert_int_equal(access(in(".new-2"), F_OK), 0);
	assert_int_equal(access(in("new-3"), F_OK), 0);
	assert_int_equal(access(in(".new-4"), F_OK), 0);
	close(lock);
	remove_abandoned(dir, ".new-", 0);
	assert_int_not_equal(access(in(".new-2"), F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_of_it, setup, teardown),
		cmocka_unit_test_setup_teardown(deep, setup, teardown),
		cmocka_unit_test_setup_teardown(abandoned, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
