/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots on the disk: kept, found, and not trusted. */
/* modules: vm/image/snapshot.c vm/base/trusted.c vm/base/path.c vm/base/memory.c vm/base/io.c vm/base/sparse.c vm/base/digest.c vm/base/remove.c */
/* libs: jansson crypto */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "vm/base/remove.h"
#include "vm/image/snapshot.h"
#include "vm/base/util.h"

#define KEY_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define KEY_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define MIB   (1u << 20)

static char top[64], dir[96];

static int set_up(void **state)
{
	(void)state;
	strcpy(top, "/tmp/xsbx-snapshot-XXXXXX");
	if (!mkdtemp(top))
		return -1;
	snprintf(dir, sizeof(dir), "%s/snapshots", top);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	(void)umount2(dir, MNT_DETACH); /* if a test failed in the middle */
	return remove_tree(top);
}

/* A snapshot of @mib MiB with @used bytes at its end that are not zero. */
static struct snapshot sample(unsigned mib, size_t used, char fill)
{
	_cleanup_free_ char *bytes = malloc(used);
	struct snapshot s;

	assert_non_null(bytes);
	memset(bytes, fill, used);
	assert_int_equal(snapshot_new(&s, mib), 0);
	assert_int_equal(pwrite(s.ram, bytes, used, (off_t)mib * MIB - (off_t)used), (ssize_t)used);
	assert_int_equal(pwrite(s.state, "devices", 7, 0), 7);
	s.tsc_khz = 2100000;
	assert_int_equal(snapshot_seal(&s), 0);
	return s;
}

static void same_bytes(int a, int b)
{
	struct stat sa, sb;
	char x[4096], y[4096];

	assert_int_equal(fstat(a, &sa), 0);
	assert_int_equal(fstat(b, &sb), 0);
	assert_int_equal(sa.st_size, sb.st_size);
	for (off_t at = 0; at < sa.st_size; at += (off_t)sizeof(x)) {
		const ssize_t n = pread(a, x, sizeof(x), at);

		assert_int_equal(pread(b, y, sizeof(y), at), n);
		assert_memory_equal(x, y, (size_t)n);
	}
}

static void put_byte(const char *file, off_t at)
{
	_cleanup_close_ int fd = -1;
	char path[256];

	snprintf(path, sizeof(path), "%s/%s/%s", dir, KEY_A, file);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "!", 1, at), 1);
}

static unsigned entries(void)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void test_round_trip(void **state)
{
	struct snapshot s = sample(8, 100000, 'x'), loaded;

	(void)state;
	assert_int_equal(snapshot_load(dir, KEY_A, &loaded), -ENOENT);
	assert_int_equal(snapshot_store(dir, KEY_A, &s, 0, false), 0);
	assert_int_equal(entries(), 1);
	assert_int_equal(snapshot_load(dir, KEY_A, &loaded), 0);
	same_bytes(s.ram, loaded.ram);
	same_bytes(s.state, loaded.state);
	assert_int_equal(loaded.tsc_khz, 2100000);
	assert_true(loaded.bytes < MIB);
	/* Nobody can change what clones start from. */
	assert_int_equal(pwrite(loaded.ram, "!", 1, 0), -1);
	assert_int_equal(ftruncate(loaded.state, 0), -1);
	assert_int_equal(snapshot_load(dir, KEY_B, &s), -ENOENT);
	snapshot_close(&loaded);
	snapshot_close(&s);
}

static void check_damaged(void)
{
	struct snapshot s;

	assert_int_equal(snapshot_load(dir, KEY_A, &s), -EBADMSG);
	assert_int_equal(s.ram, -1);
}

static void test_damage(void **state)
{
	struct snapshot s = sample(4, 5000, 'x');
	char path[256];

	(void)state;
	assert_int_equal(snapshot_store(dir, KEY_A, &s, 0, false), 0);
	put_byte("ram", 4 * MIB - 1);
	check_damaged();
	/* Storing replaces what is there, and a byte in a hole counts too. */
	assert_int_equal(snapshot_store(dir, KEY_A, &s, 0, false), 0);
	put_byte("ram", 12345);
	check_damaged();
	assert_int_equal(snapshot_store(dir, KEY_A, &s, 0, false), 0);
	put_byte("state", 3);
	check_damaged();
	assert_int_equal(snapshot_store(dir, KEY_A, &s, 0, false), 0);
	put_byte("manifest.json", 0);
	check_damaged();
	assert_int_equal(snapshot_store(dir, KEY_A, &s, 0, false), 0);
	snprintf(path, sizeof(path), "%s/%s/ram", dir, KEY_A);
	assert_int_equal(truncate(path, MIB), 0);
	check_damaged();
	assert_int_equal(unlink(path), 0);
	check_damaged();
	snapshot_remove(dir, KEY_A);
	assert_int_equal(entries(), 0);
	snapshot_close(&s);
}

/* Under another name, or from somebody else. */
static void test_foreign(void **state)
{
	struct snapshot s = sample(4, 5000, 'x');
	char from[256], to[256];

	(void)state;
	assert_int_equal(snapshot_store(dir, KEY_A, &s, 0, false), 0);
	snapshot_close(&s);
	snprintf(from, sizeof(from), "%s/%s", dir, KEY_A);
	snprintf(to, sizeof(to), "%s/%s", dir, KEY_B);
	assert_int_equal(rename(from, to), 0);
	assert_int_equal(snapshot_load(dir, KEY_B, &s), -EBADMSG);
	assert_int_equal(symlink(to, from), 0);
	assert_int_equal(snapshot_load(dir, KEY_A, &s), -EBADMSG);
	assert_int_equal(unlink(from), 0);
	assert_int_equal(rename(to, from), 0);
	assert_int_equal(chmod(from, 0777), 0);
	assert_int_equal(snapshot_load(dir, KEY_A, &s), -EBADMSG);
}

static void test_other_owner(void **state)
{
	struct snapshot s = sample(4, 5000, 'x');
	char path[256];

	(void)state;
	if (geteuid() != 0) {
		snapshot_close(&s);
		skip();
	}
	assert_int_equal(snapshot_store(dir, KEY_A, &s, 0, false), 0);
	snapshot_close(&s);
	snprintf(path, sizeof(path), "%s/%s", dir, KEY_A);
	assert_int_equal(chown(path, 1, 0), 0);
	assert_int_equal(snapshot_load(dir, KEY_A, &s), -EBADMSG);
	assert_int_equal(chown(path, 0, 0), 0);
	assert_int_equal(snapshot_load(dir, KEY_A, &s), 0);
	snapshot_close(&s);
}

/* A link to the very file it should be is refused, too. */
static void test_links_inside(void **state)
{
	static const char *const files[] = {"ram", "state", "manifest.json"};
	struct snapshot s = sample(4, 5000, 'x');

	(void)state;
	assert_int_equal(snapshot_store(dir, KEY_A, &s, 0, false), 0);
	snapshot_close(&s);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		char path[256], real[256];

		snprintf(path, sizeof(path), "%s/%s/%s", dir, KEY_A, files[i]);
		snprintf(real, sizeof(real), "%s/real", top);
		assert_int_equal(rename(path, real), 0);
		assert_int_equal(symlink(real, path), 0);
		check_damaged();
		assert_int_equal(unlink(path), 0);
		assert_int_equal(rename(real, path), 0);
	}
	assert_int_equal(snapshot_load(dir, KEY_A, &s), 0);
	snapshot_close(&s);
}

static void test_truncated(void **state)
{
	static const char *const files[] = {"state", "manifest.json"};
	static const off_t sizes[] = {3, 0};
	struct snapshot s = sample(4, 5000, 'x');

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		char path[256];

		snprintf(path, sizeof(path), "%s/%s/%s", dir, KEY_A, files[i]);
		for (size_t n = 0; n < ARRAY_SIZE(sizes); n++) {
			assert_int_equal(snapshot_store(dir, KEY_A, &s, 0, false), 0);
			assert_int_equal(truncate(path, sizes[n]), 0);
			check_damaged();
		}
		assert_int_equal(unlink(path), 0);
		check_damaged();
	}
	snapshot_close(&s);
}

/* A file system of a few pages: what does not fit leaves nothing behind, and harms nothing. */
static void test_no_space(void **state)
{
	struct snapshot small = sample(4, 5000, 'a'), large = sample(4, 2 * MIB, 'b'), s;

	(void)state;
	assert_int_equal(mkdir(dir, 0700), 0);
	if (mount("tmpfs", dir, "tmpfs", 0, "size=1m,mode=700") < 0) {
		snapshot_close(&small);
		snapshot_close(&large);
		skip();
	}
	assert_int_equal(snapshot_store(dir, KEY_A, &small, 0, false), 0);
	assert_int_equal(snapshot_store(dir, KEY_B, &large, 0, false), -ENOSPC);
	assert_int_equal(snapshot_store(dir, KEY_A, &large, 0, false), -ENOSPC);
	assert_int_equal(entries(), 1);
	assert_int_equal(snapshot_load(dir, KEY_A, &s), 0);
	same_bytes(small.ram, s.ram);
	snapshot_close(&s);
	assert_int_equal(umount(dir), 0);
	snapshot_close(&small);
	snapshot_close(&large);
}

static void test_limit(void **state)
{
	struct snapshot a = sample(4, 2 * MIB, 'a'), b = sample(4, 2 * MIB, 'b'), s;

	(void)state;
	assert_int_equal(snapshot_store(dir, KEY_A, &a, MIB, false), -EFBIG);
	assert_int_equal(snapshot_store(dir, KEY_A, &a, 3 * MIB, false), 0);
	assert_int_equal(snapshot_store(dir, KEY_B, &b, 3 * MIB, false), 0);
	assert_int_equal(snapshot_load(dir, KEY_A, &s), -ENOENT);
	assert_int_equal(snapshot_load(dir, KEY_B, &s), 0);
	snapshot_close(&s);
	assert_int_equal(snapshot_store(dir, KEY_A, &a, 8 * MIB, false), 0);
	assert_int_equal(entries(), 2);
	snapshot_close(&a);
	snapshot_close(&b);
}

static void test_clean(void **state)
{
	_cleanup_close_ int busy = -1;
	char path[256];

	(void)state;
	assert_int_equal(mkdir(dir, 0700), 0);
	snprintf(path, sizeof(path), "%s/.new-crashed", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/.new-busy", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	busy = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(busy, LOCK_EX | LOCK_NB), 0);
	snapshot_clean(dir);
	assert_int_equal(entries(), 1);
	assert_int_equal(access(path, F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_round_trip, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_foreign, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_other_owner, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_links_inside, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_truncated, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_space, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_limit, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_clean, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
