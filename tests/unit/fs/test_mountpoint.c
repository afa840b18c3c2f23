/* SPDX-License-Identifier: Apache-2.0 */
/* The place where the mount goes, and the runtime directory that belongs to it. */
/* modules: fs/mountpoint.c vm/base/buf.c vm/base/mount_table.c vm/base/path.c vm/base/log.c vm/base/log_line.c vm/base/systemd.c */
/* modules: vm/base/remove.c vm/base/io.c */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "fs/mountpoint.h"
#include "vm/base/io.h"
#include "vm/base/remove.h"

struct fixture {
	char top[64], parent[96], why[256];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->top, "/tmp/xsbxfs-unit.XXXXXX");
	assert_non_null(mkdtemp(f->top));
	snprintf(f->parent, sizeof(f->parent), "%s/run", f->top);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	rmdir(f->parent);
	assert_int_equal(rmdir(f->top), 0);
	free(f);
	return 0;
}

/* What main.c does at the end. */
static void give_back(char *dir, int lock)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/lock", dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
	close(lock);
	free(dir);
}

static void test_prepare(void **state)
{
	struct fixture *f = *state;
	char path[128];

	assert_int_equal(mountpoint_prepare(f->top, f->why, sizeof(f->why)), 0);
	snprintf(path, sizeof(path), "%s/none", f->top);
	assert_int_equal(mountpoint_prepare(path, f->why, sizeof(f->why)), -ENOENT);
	assert_non_null(strstr(f->why, path));
	assert_int_equal(mountpoint_prepare("/dev/null", f->why, sizeof(f->why)), -ENOTDIR);
	assert_string_equal(f->why, "/dev/null is not a directory");
}

static void test_claim(void **state)
{
	struct fixture *f = *state;
	char *a, *b, *again;
	int lock_a, lock_b, lock;
	struct stat st;

	assert_int_equal(
		mountpoint_claim(f->parent, "/mnt/a", 0, &a, &lock_a, f->why, sizeof(f->why)), 0);
	assert_memory_equal(a, f->parent, strlen(f->parent));
	assert_null(strchr(a + strlen(f->parent) + 1, '/'));
	assert_int_equal(stat(a, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(
		mountpoint_claim(f->parent, "/mnt/b", 0, &b, &lock_b, f->why, sizeof(f->why)), 0);
	assert_string_not_equal(a, b);
	assert_int_equal(
		mountpoint_claim(f->parent, "/mnt/a", 0, &again, &lock, f->why, sizeof(f->why)),
		-EBUSY);
	assert_non_null(strstr(f->why, "another xsbxfs is mounted on /mnt/a"));
	close(lock_a); /* that instance died and left its directory */
	free(a);
	assert_int_equal(
		mountpoint_claim(f->parent, "/mnt/a", 0, &a, &lock_a, f->why, sizeof(f->why)), 0);
	give_back(a, lock_a);
	give_back(b, lock_b);
}

/* Return: a process that has the lock as well, and ends after so long; @lock is closed here. */
static pid_t lingers(int lock, unsigned ms)
{
	const struct timespec while_it_saves = {.tv_sec = ms / 1000,
						.tv_nsec = ms % 1000 * 1000000L};
	const pid_t pid = fork();

	if (pid == 0) {
		nanosleep(&while_it_saves, NULL);
		_exit(0);
	}
	assert_true(pid > 0);
	close(lock);
	return pid;
}

/* With `keep` one that is unmounted writes its sessions before it ends. */
static void test_one_that_ends(void **state)
{
	/* Nothing is mounted at the first, and there is nothing to wait for at the second, unless it says that it ends. */
	static const struct {
		const char *path;
		bool ends;
		int claimed;
	} cases[] = {{"/mnt/a", false, 0}, {"/proc", false, -EBUSY}, {"/proc", true, 0}};
	struct fixture *f = *state;
	char *dir, *again;
	int lock, next, r;
	pid_t pid;

	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(mountpoint_claim(f->parent, cases[i].path, 0, &dir, &lock, f->why,
						  sizeof(f->why)),
				 0);
		if (cases[i].ends)
			mountpoint_ends(dir);
		pid = lingers(lock, 4000);
		r = mountpoint_claim(f->parent, cases[i].path, 1000000, &again, &next, f->why,
				     sizeof(f->why));
		assert_int_equal(r, cases[i].claimed);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		if (r < 0)
			assert_int_equal(mountpoint_claim(f->parent, cases[i].path, 0, &again,
							  &next, f->why, sizeof(f->why)),
					 0);
		free(dir);
		give_back(again, next);
	}
}

/* Nobody is told to kill it, how ever long it takes; of the next one there, that is not said. */
static void test_advice(void **state)
{
	struct fixture *f = *state;
	char *dir, *again, me[32];
	int lock, next;

	snprintf(me, sizeof(me), "kill %d", (int)getpid());
	for (unsigned i = 0; i < 2; i++) {
		const bool ends = i == 0;

		assert_int_equal(mountpoint_claim(f->parent, "/proc", 0, &dir, &lock, f->why,
						  sizeof(f->why)),
				 0);
		if (ends)
			mountpoint_ends(dir);
		assert_int_equal(mountpoint_claim(f->parent, "/proc", 0, &again, &next, f->why,
						  sizeof(f->why)),
				 -EBUSY);
		assert_true(!strstr(f->why, "kill") == ends);
		assert_true(!strstr(f->why, "wait until it has ended") == !ends);
		assert_true(ends || strstr(f->why, me));
		if (ends) { /* it died, and left all that */
			close(lock);
			free(dir);
		}
	}
	give_back(dir, lock);
}

/* As one leaves it that is killed while it removes its directory. Return: its path. */
static char *leave_gone(const char *dir, unsigned n)
{
	char *path, file[300];

	assert_true(asprintf(&path, "%s.gone-%u", dir, n) > 0);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(file, sizeof(file), "%s/processes", path);
	assert_int_equal(close(open(file, O_CREAT | O_WRONLY, 0600)), 0);
	return path;
}

/* The next one of this mountpoint clears that, but nothing that is being removed, or another mount's. */
static void test_half_removed(void **state)
{
	struct fixture *f = *state;
	char *a, *b, *gone[3];
	int lock_a, lock_b, busy;

	assert_int_equal(
		mountpoint_claim(f->parent, "/mnt/a", 0, &a, &lock_a, f->why, sizeof(f->why)), 0);
	assert_int_equal(
		mountpoint_claim(f->parent, "/mnt/b", 0, &b, &lock_b, f->why, sizeof(f->why)), 0);
	gone[0] = leave_gone(a, 7);
	gone[1] = leave_gone(a, 8);
	gone[2] = leave_gone(b, 7);
	busy = fileio_lock(gone[1]);
	assert_true(busy >= 0);
	close(lock_a);
	free(a);
	assert_int_equal(
		mountpoint_claim(f->parent, "/mnt/a", 0, &a, &lock_a, f->why, sizeof(f->why)), 0);
	assert_int_equal(access(gone[0], F_OK), -1);
	assert_int_equal(access(gone[1], F_OK), 0);
	assert_int_equal(access(gone[2], F_OK), 0);
	assert_int_equal(access(a, F_OK), 0);
	close(busy);
	for (unsigned i = 0; i < 3; i++) {
		(void)remove_tree(gone[i]);
		free(gone[i]);
	}
	give_back(a, lock_a);
	give_back(b, lock_b);
}

static void test_paths_that_look_alike(void **state)
{
	struct fixture *f = *state;
	char x[200], y[200], *a, *b;
	int lock_a, lock_b;

	memset(x, 'p', sizeof(x));
	x[0] = '/';
	x[199] = '\0';
	memcpy(y, x, sizeof(x));
	y[1] = 'q'; /* differs where it is cut off */
	assert_int_equal(mountpoint_claim(f->parent, x, 0, &a, &lock_a, f->why, sizeof(f->why)), 0);
	assert_int_equal(mountpoint_claim(f->parent, y, 0, &b, &lock_b, f->why, sizeof(f->why)), 0);
	assert_string_not_equal(a, b);
	give_back(a, lock_a);
	give_back(b, lock_b);
}

static void test_directories_that_are_not_private(void **state)
{
	struct fixture *f = *state;
	char *dir = NULL, link[128];
	int lock = -1;

	assert_int_equal(mkdir(f->parent, 0700), 0);
	assert_int_equal(chmod(f->parent, 0777), 0); /* somebody else could put things there */
	assert_int_equal(
		mountpoint_claim(f->parent, "/mnt", 0, &dir, &lock, f->why, sizeof(f->why)),
		-EPERM);
	assert_non_null(strstr(f->why, "not a private directory"));
	snprintf(link, sizeof(link), "%s/link", f->top);
	assert_int_equal(symlink("/", link), 0);
	assert_int_equal(mountpoint_claim(link, "/mnt", 0, &dir, &lock, f->why, sizeof(f->why)),
			 -EPERM);
	assert_null(dir);
	unlink(link);
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		test(test_prepare),
		test(test_claim),
		test(test_half_removed),
		test(test_one_that_ends),
		test(test_advice),
		test(test_paths_that_look_alike),
		test(test_directories_that_are_not_private),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
