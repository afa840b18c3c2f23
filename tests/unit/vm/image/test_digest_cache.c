/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of files: right, remembered, and forgotten when a file is another one. */
/* modules: vm/image/digest_cache.c vm/base/trusted.c vm/base/path.c vm/base/digest.c vm/base/io.c vm/base/remove.c */
/* libs: crypto */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/image/digest_cache.h"
#include "vm/base/remove.h"
#include "vm/base/util.h"

#define SHA_ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

static char dir[64];
static const int go_on, stop = 1;

static int set_up(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/xsbx-contents-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	return remove_tree(dir);
}

/* Return: a descriptor of a file with these bytes. */
static int file(const char *name, const char *text)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, text, strlen(text), 0), (ssize_t)strlen(text));
	return fd;
}

static void test_right(void **state)
{
	_cleanup_close_ int fd = file("a", "abc");
	static struct digest_cache c;
	struct digest_known k;
	char hex[DIGEST_HEX];

	(void)state;
	c.n = 0;
	assert_int_equal(digest_cache_find(&c, fd, hex), -EAGAIN);
	assert_int_equal(digest_cache_compute(fd, &stop, &k), -ECANCELED);
	assert_int_equal(digest_cache_compute(fd, &go_on, &k), 0);
	assert_string_equal(k.hex, SHA_ABC);
	digest_cache_add(&c, &k);
	assert_int_equal(digest_cache_find(&c, fd, hex), 0);
	assert_string_equal(hex, SHA_ABC);
	assert_int_equal(digest_cache_find(&c, -1, hex), -EBADF);
}

/* One byte changed, size and time as before. */
static void test_altered(void **state)
{
	_cleanup_close_ int fd = file("a", "abc");
	static struct digest_cache c;
	struct digest_known k;
	struct timespec times[2];
	char hex[DIGEST_HEX];
	struct stat st;

	(void)state;
	c.n = 0;
	assert_int_equal(digest_cache_compute(fd, &go_on, &k), 0);
	digest_cache_add(&c, &k);
	/* Right after it was read: the file system's clock has moved on for certain. */
	assert_int_equal(fstat(fd, &st), 0);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	assert_int_equal(pwrite(fd, "X", 1, 1), 1);
	assert_int_equal(futimens(fd, times), 0);
	assert_int_equal(digest_cache_find(&c, fd, hex), -EAGAIN);
	assert_int_equal(digest_cache_compute(fd, &go_on, &k), 0);
	assert_string_not_equal(k.hex, SHA_ABC);
	/* It takes the place of what the file was. */
	digest_cache_add(&c, &k);
	assert_int_equal(c.n, 1);
	/* Touched only: read again, and found to be the same. */
	assert_int_equal(pwrite(fd, "b", 1, 1), 1);
	assert_int_equal(digest_cache_find(&c, fd, hex), -EAGAIN);
	assert_int_equal(digest_cache_compute(fd, &go_on, &k), 0);
	assert_string_equal(k.hex, SHA_ABC);
}

static void test_kept(void **state)
{
	_cleanup_close_ int a = file("a", "abc"), b = file("b", "other");
	static struct digest_cache c;
	struct digest_known ka, kb;
	char hex[DIGEST_HEX], path[128];

	(void)state;
	assert_int_equal(digest_cache_compute(a, &go_on, &ka), 0);
	assert_int_equal(digest_cache_compute(b, &go_on, &kb), 0);
	assert_int_equal(digest_cache_keep(dir, &ka, false), 0);
	assert_int_equal(digest_cache_keep(dir, &kb, false), 0);
	digest_cache_load(&c, dir);
	assert_int_equal(c.n, 2);
	assert_int_equal(digest_cache_find(&c, a, hex), 0);
	assert_string_equal(hex, SHA_ABC);
	assert_int_equal(digest_cache_find(&c, b, hex), 0);
	assert_string_equal(hex, kb.hex);
	/* One that others can write to is not believed. */
	snprintf(path, sizeof(path), "%s/.contents", dir);
	assert_int_equal(chmod(path, 0666), 0);
	digest_cache_load(&c, dir);
	assert_int_equal(c.n, 0);
	/* Nor one that is a link. */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("a", path), 0);
	digest_cache_load(&c, dir);
	assert_int_equal(c.n, 0);
}

static void test_nonsense(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"rubbish\n",
		"1 2 3\n",
		"1 2 3 4.5 6.7 " SHA_ABC "0\n",
		"1 2 3 4.5 6.7 short\n",
		"1 2 3 4.5 6.7 " SHA_ABC " more\n",
	};
	static struct digest_cache c;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		close(file(".contents", texts[i]));
		digest_cache_load(&c, dir);
		assert_int_equal(c.n, 0);
	}
	close(file(".contents", "1 2 3 4.5 6.7 " SHA_ABC "\nhalf a li"));
	digest_cache_load(&c, dir);
	assert_int_equal(c.n, 1);
}

static void test_many(void **state)
{
	static struct digest_cache c;
	struct digest_known k = {.hex = SHA_ABC};

	(void)state;
	c.n = 0;
	for (unsigned i = 0; i < 3 * DIGEST_CACHE_MAX; i++) {
		k.id.ino = i;
		digest_cache_add(&c, &k);
	}
	assert_int_equal(c.n, DIGEST_CACHE_MAX);
	assert_int_equal(c.known[0].id.ino, 3 * DIGEST_CACHE_MAX - 1);
	assert_int_equal(c.known[DIGEST_CACHE_MAX - 1].id.ino, 2 * DIGEST_CACHE_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_right, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_altered, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_kept, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nonsense, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
