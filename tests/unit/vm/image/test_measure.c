/* SPDX-License-Identifier: Apache-2.0 */
/* What directories take on the disk: counted once, bounded, and also while somebody changes them; and whether
 * there is room for a layer. */
/* modules: vm/image/measure.c vm/image/layer_disk.c vm/base/io.c vm/base/path.c vm/base/remove.c */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/image/layer.h"
#include "vm/image/measure.h"
#include "vm/base/remove.h"
#include "vm/base/util.h"

#define KEY  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define MIB  (1u << 20)
#define DEEP 200

static char dir[64];

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/xsbx-test.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return remove_tree(dir);
}

/* The path of something in the directory, valid until the next call. */
static const char *in(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void put(const char *name, size_t size)
{
	static const char bytes[4096];
	const int fd = open(in(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	for (size_t n = 0; n < size; n += sizeof(bytes))
		assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	close(fd);
}

static void same_mib(uint64_t bytes, unsigned mib)
{
	assert_in_range(bytes, mib * MIB, mib * MIB + MIB / 4);
}

static void sums(void **state)
{
	struct measure m = {0};
	char from[256];

	(void)state;
	put("one", MIB);
	assert_int_equal(mkdir(in("sub"), 0755), 0);
	put("sub/two", 2 * MIB);
	assert_int_equal(measure_tree(&m, dir), 0);
	same_mib(m.bytes, 3);
	assert_int_equal(m.files, 4);
	/* An installer links what it has downloaded; that takes no room twice. */
	snprintf(from, sizeof(from), "%s", in("sub/two"));
	assert_int_equal(link(from, in("again")), 0);
	/* Nor is it ours where a link leads. */
	assert_int_equal(symlink("/usr", in("away")), 0);
	m = (struct measure){0};
	assert_int_equal(measure_tree(&m, dir), 0);
	same_mib(m.bytes, 3);
	assert_int_equal(m.files, 6);
	/* A file alone, and what is not there. */
	m = (struct measure){0};
	assert_int_equal(measure_tree(&m, in("one")), 0);
	same_mib(m.bytes, 1);
	assert_int_equal(measure_tree(&m, in("none")), -ENOENT);
}

static void bounds(void **state)
{
	struct measure m = {.most = 6};
	char name[16];
	int fd, next;

	(void)state;
	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "%d", i);
		put(name, 0);
	}
	assert_int_equal(measure_tree(&m, dir), 0);
	put("more", 0);
	m = (struct measure){.most = 6};
	assert_int_equal(measure_tree(&m, dir), -E2BIG);
	assert_int_equal(m.files, 6);
	/* Whoever nests directories deeply means no good. */
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < DEEP; i++) {
		assert_int_equal(mkdirat(fd, name, 0755), 0);
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	close(fd);
	m = (struct measure){0};
	assert_int_equal(measure_tree(&m, dir), -E2BIG);
}

/* Makes and removes files and directories, as fast as it can. */
static void churn(void)
{
	const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char name[16], inner[32];

	for (unsigned i = 0;; i++) {
		snprintf(name, sizeof(name), "%u", i % 64);
		snprintf(inner, sizeof(inner), "%s/file", name);
		if (mkdirat(fd, name, 0755) == 0) {
			close(openat(fd, inner, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
		} else {
			unlinkat(fd, inner, 0);
			unlinkat(fd, name, AT_REMOVEDIR);
		}
	}
}

static void changes(void **state)
{
	pid_t pid;

	(void)state;
	put("stays", MIB);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		churn();
	}
	for (int i = 0; i < 2000; i++) {
		struct measure m = {.most = 100000};

		assert_int_equal(measure_tree(&m, dir), 0);
		assert_in_range(m.bytes, MIB, 2 * MIB);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* What can't be looked into is no zero, and what is beside it counts. */
static void hidden(void **state)
{
	struct measure m = {0};
	int status;
	pid_t pid;

	(void)state;
	put("seen", MIB);
	assert_int_equal(mkdir(in("sub"), 0755), 0);
	put("sub/unseen", MIB);
	assert_int_equal(chmod(in("sub"), 0), 0);
	assert_int_equal(chmod(dir, 0755), 0);
	pid = fork();
	if (pid == 0) { /* without root's rights */
		if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
			_exit(2);
		_exit(measure_tree(&m, dir) == -EACCES && m.bytes >= MIB ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(chmod(in("sub"), 0755), 0);
	assert_int_equal(status, 0);
}

static int publish(enum layer_form form, uint64_t limit, uint64_t *ret_bytes)
{
	const int r = layer_publish(dir, KEY, form, limit, ret_bytes);

	layer_abandon(dir, KEY);
	return r;
}

/* What a layer takes is what it takes alone: not a share of it, because the installer has the same files
 * elsewhere as well. */
static void shared(void **state)
{
	char from[256], name[128];
	uint64_t bytes;
	int lock;

	(void)state;
	for (int i = 0; i < 2; i++) {
		const uint64_t limit = i ? 3 * MIB : 2 * MIB;

		assert_int_equal(layer_begin(dir, KEY, &lock), 0);
		assert_int_equal(mkdir(in(".tmp-" KEY "/out/tree"), 0755), 0);
		put(".tmp-" KEY "/out/tree/big", 2 * MIB);
		snprintf(from, sizeof(from), "%s", in(".tmp-" KEY "/out/tree/big"));
		for (int n = 0; n < 9; n++) {
			snprintf(name, sizeof(name), ".tmp-" KEY "/out/%d", n);
			assert_int_equal(link(from, in(name)), 0);
		}
		/* Twice in the layer itself, it takes no room twice. */
		assert_int_equal(link(from, in(".tmp-" KEY "/out/tree/again")), 0);
		assert_int_equal(publish(LAYER_TREE, limit, &bytes), i ? 0 : -EFBIG);
		same_mib(bytes, 2);
		close(lock);
	}
	assert_int_equal(access(in(KEY "/tree/big"), F_OK), 0);
}

/* One that can't be counted to its end is no layer. */
static void too_deep(void **state)
{
	uint64_t bytes;
	int fd, next, lock;

	(void)state;
	assert_int_equal(layer_begin(dir, KEY, &lock), 0);
	assert_int_equal(mkdir(in(".tmp-" KEY "/out/tree"), 0755), 0);
	fd = open(in(".tmp-" KEY "/out/tree"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < DEEP; i++) {
		assert_int_equal(mkdirat(fd, "d", 0755), 0);
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	close(fd);
	assert_int_equal(publish(LAYER_TREE, 0, &bytes), -E2BIG);
	assert_int_not_equal(access(in(KEY), F_OK), 0);
	close(lock);
}

static void layer(char name, size_t size, time_t used)
{
	const struct timespec times[2] = {{.tv_sec = used}, {.tv_sec = used}};
	char key[] = KEY, path[128];

	key[0] = name;
	assert_int_equal(mkdir(in(key), 0755), 0);
	snprintf(path, sizeof(path), "%s/layer.erofs", key);
	put(path, size);
	assert_int_equal(utimensat(AT_FDCWD, in(key), times, 0), 0);
}

static bool has_layer(char name)
{
	char key[] = KEY;

	key[0] = name;
	return access(in(key), F_OK) == 0;
}

/* A disk that is full of layers has room for another one; those that were used last stay. */
static void scarce(void **state)
{
	uint64_t bytes;
	int lock;

	(void)state;
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", dir, "tmpfs", 0, "size=64m,nr_inodes=0") < 0)
		skip();
	layer('a', 20 * MIB, 3000);
	layer('b', 20 * MIB, 1000);
	layer('c', 23 * MIB + MIB / 2, 2000);
	assert_int_equal(layer_begin(dir, KEY, &lock), 0);
	assert_int_equal(layer_room(dir, KEY, 0, &bytes), 0);
	assert_true(has_layer('a') && !has_layer('b') && has_layer('c'));
	layer_abandon(dir, KEY);
	close(lock);
	assert_int_equal(umount(dir), 0);
}

/* A layer and what it is made of may have twice what all layers may, and no more. */
static void room(void **state)
{
	uint64_t bytes;
	int lock;

	(void)state;
	assert_int_equal(layer_begin(dir, KEY, &lock), 0);
	put(".tmp-" KEY "/out/a", MIB);
	put(".tmp-" KEY "/packed/b", MIB);
	if (layer_room(dir, KEY, 0, &bytes) == -ENOSPC) {
		print_message("the disk is nearly full\n");
		layer_abandon(dir, KEY);
		close(lock);
		skip();
	}
	assert_int_equal(layer_room(dir, KEY, MIB + MIB / 8, &bytes), 0);
	same_mib(bytes, 2);
	put(".tmp-" KEY "/out/c", MIB);
	assert_int_equal(layer_room(dir, KEY, MIB + MIB / 8, &bytes), -EFBIG);
	same_mib(bytes, 3);
	assert_int_equal(layer_room(dir, KEY, 0, &bytes), 0);
	layer_abandon(dir, KEY);
	close(lock);
	assert_int_equal(layer_room(dir, KEY, 0, &bytes), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(sums, setup, teardown),
		cmocka_unit_test_setup_teardown(bounds, setup, teardown),
		cmocka_unit_test_setup_teardown(changes, setup, teardown),
		cmocka_unit_test_setup_teardown(room, setup, teardown),
		cmocka_unit_test_setup_teardown(hidden, setup, teardown),
		cmocka_unit_test_setup_teardown(shared, setup, teardown),
		cmocka_unit_test_setup_teardown(too_deep, setup, teardown),
		cmocka_unit_test_setup_teardown(scarce, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
