/* SPDX-License-Identifier: Apache-2.0 */
/* Images: found, complete or not, found again when replaced; the initrd and its archive. */
/* modules: vm/image/image.c vm/base/trusted.c vm/base/path.c vm/image/cpio.c vm/base/io.c vm/base/digest.c vm/base/buf.c vm/base/remove.c */
/* libs: jansson crypto */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "vm/image/image.h"
#include "vm/base/remove.h"
#include "vm/base/util.h"

static char dir[64];

static void put(const char *path, const char *text)
{
	char full[256];
	_cleanup_file_ FILE *f = NULL;

	snprintf(full, sizeof(full), "%s/%s", dir, path);
	f = fopen(full, "w");
	assert_non_null(f);
	fputs(text, f);
}

static void make(const char *path)
{
	char full[256];

	snprintf(full, sizeof(full), "%s/%s", dir, path);
	assert_int_equal(mkdir(full, 0700), 0);
}

/* Points a template to a version, as the build does it: in one step. */
static void point(const char *name, const char *version)
{
	char link[256], temporary[256], target[128];

	snprintf(target, sizeof(target), "../%s", version);
	snprintf(link, sizeof(link), "%s/images/templates/%s", dir, name);
	snprintf(temporary, sizeof(temporary), "%s/images/link", dir);
	assert_int_equal(symlink(target, temporary), 0);
	assert_int_equal(rename(temporary, link), 0);
}

static int setup(void **state)
{
	char agent[128];

	strcpy(dir, "/tmp/xsbx-test.XXXXXX");
	assert_non_null(mkdtemp(dir));
	make("images");
	make("images/templates");
	make("images/kernel-1");
	put("images/kernel-1/vmlinux", "kernel");
	put("images/kernel-1/modules.cpio", "modules"); /* not a multiple of four */
	put("images/kernel-1/manifest.json", "{}");
	make("images/raw-1");
	put("images/raw-1/rootfs.erofs", "root one");
	put("images/raw-1/manifest.json", "{\"name\": \"raw\"}");
	put("agent", "the agent");
	point("kernel", "kernel-1");
	point("raw", "raw-1");
	snprintf(agent, sizeof(agent), "%s/agent", dir);
	*state = images_new(dir, NULL, agent, "auto");
	assert_non_null(*state);
	return 0;
}

static int teardown(void **state)
{
	images_free(*state);
	assert_int_equal(remove_tree(dir), 0);
	return 0;
}

static void assert_content(int fd, const char *text)
{
	char got[64] = "";

	assert_true(pread(fd, got, sizeof(got) - 1, 0) >= 0);
	assert_string_equal(got, text);
}

static void complete(void **state)
{
	struct image image;
	const char *why;

	assert_int_equal(images_open(*state, "raw", &image, &why), 0);
	assert_content(image.kernel, "kernel");
	assert_content(image.rootfs, "root one");
	assert_string_equal(images_manifest(*state, "raw", &why), "{\"name\": \"raw\"}");
}

/* modules, padding, then "init" with the agent, padding, and the end of the archive */
static void initrd(void **state)
{
	char bytes[8192] = "";
	struct image image;
	const char *why;

	assert_int_equal(images_open(*state, "raw", &image, &why), 0);
	/* One page, so that the firmware's tables behind it stay as they are. */
	assert_int_equal(pread(image.initrd, bytes, sizeof(bytes), 0), 4096);
	for (size_t i = 264; i < 4096; i++)
		assert_int_equal(bytes[i], 0);
	assert_memory_equal(bytes, "modules\0", 8);
	assert_memory_equal(bytes + 8, "070701", 6);
	assert_memory_equal(bytes + 8 + 14, "000081ed", 8); /* a regular file, 0755 */
	assert_memory_equal(bytes + 8 + 54, "00000009", 8); /* its size */
	assert_memory_equal(bytes + 8 + 94, "00000005", 8); /* its name's */
	assert_memory_equal(bytes + 8 + 110, "init\0", 5);
	assert_memory_equal(bytes + 8 + 116, "the agent\0\0\0", 12);
	assert_memory_equal(bytes + 8 + 128, "070701", 6);
	assert_memory_equal(bytes + 8 + 128 + 110, "TRAILER!!!", 10);
	/* Nobody can change what all machines share. */
	assert_int_equal(pwrite(image.initrd, "x", 1, 0), -1);
	assert_int_equal(ftruncate(image.initrd, 0), -1);
}

static void the_same_again(void **state)
{
	struct image one, two;
	const char *why;

	assert_int_equal(images_open(*state, "raw", &one, &why), 0);
	assert_int_equal(images_open(*state, "raw", &two, &why), 0);
	assert_int_equal(one.kernel, two.kernel);
	assert_int_equal(one.initrd, two.initrd);
	assert_int_equal(one.rootfs, two.rootfs);
	assert_string_equal(one.initrd_sha256, two.initrd_sha256);
}

static void replaced(void **state)
{
	struct image image;
	const char *why;

	assert_int_equal(images_open(*state, "raw", &image, &why), 0);
	make("images/raw-2");
	put("images/raw-2/rootfs.erofs", "root two");
	put("images/raw-2/manifest.json", "{\"v\": 2}");
	point("raw", "raw-2");
	assert_int_equal(images_open(*state, "raw", &image, &why), 0);
	assert_content(image.rootfs, "root two");
	assert_string_equal(images_manifest(*state, "raw", &why), "{\"v\": 2}");
	put("agent", "a new agent of another size");
	assert_int_equal(images_open(*state, "raw", &image, &why), 0);
	{
		char bytes[256];

		assert_true(pread(image.initrd, bytes, sizeof(bytes), 0) > 140);
		assert_memory_equal(bytes + 124, "a new agent", 11);
	}
}

/* Snapshots are found by what is in the initrd, whatever its files' times say. */
static void initrd_by_content(void **state)
{
	char first[65], path[128];
	struct timespec times[2];
	struct image image;
	const char *why;
	struct stat st;

	assert_int_equal(images_open(*state, "raw", &image, &why), 0);
	assert_int_equal(strlen(image.initrd_sha256), 64);
	snprintf(first, sizeof(first), "%s", image.initrd_sha256);
	snprintf(path, sizeof(path), "%s/agent", dir);
	assert_int_equal(stat(path, &st), 0);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	/* A change within the tick of the clock in which it was looked at can't be seen. */
	usleep(50000);
	/* Another byte, with the old size and time: another one. */
	put("agent", "the aGent");
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	assert_int_equal(images_open(*state, "raw", &image, &why), 0);
	assert_string_not_equal(image.initrd_sha256, first);
	/* The old bytes at another time: the old one. */
	usleep(50000);
	put("agent", "the agent");
	assert_int_equal(images_open(*state, "raw", &image, &why), 0);
	assert_string_equal(image.initrd_sha256, first);
}

static void added_later(void **state)
{
	struct image image;
	const char *why;

	assert_int_equal(images_open(*state, "late", &image, &why), -ENOENT);
	assert_non_null(strstr(why, "no image 'late'"));
	assert_null(images_manifest(*state, "late", &why));
	point("late", "raw-1");
	assert_int_equal(images_open(*state, "late", &image, &why), 0);
}

static void not_complete(void **state)
{
	char path[128];
	struct image image;
	const char *why;

	make("images/half-1");
	put("images/half-1/manifest.json", "{}");
	point("half", "half-1");
	assert_true(images_open(*state, "half", &image, &why) < 0);
	assert_non_null(strstr(why, "not complete: rootfs.erofs"));
	snprintf(path, sizeof(path), "%s/agent", dir);
	assert_int_equal(unlink(path), 0);
	assert_true(images_open(*state, "raw", &image, &why) < 0);
	assert_non_null(strstr(why, "agent"));
}

static void no_kernel(void **state)
{
	char path[128];
	struct image image;
	const char *why;

	snprintf(path, sizeof(path), "%s/images/templates/kernel", dir);
	assert_int_equal(unlink(path), 0);
	assert_true(images_open(*state, "raw", &image, &why) < 0);
	assert_non_null(strstr(why, "'kernel'"));
}

static void put_own_kernel(void)
{
	make("images/own-1");
	put("images/own-1/vmlinux", "our own");
	put("images/own-1/manifest.json", "{\"release\": \"6.1.0-own\"}");
	point("kernel-own", "own-1");
}

/* Our own kernel is taken from the moment it is there; its initrd begins with the agent. */
static void own_kernel(void **state)
{
	char bytes[256] = "", text[64], before[512];
	struct image image;
	const char *why;

	assert_int_equal(images_open(*state, "raw", &image, &why), 0);
	assert_false(image.own);
	snprintf(before, sizeof(before), "%s", image.initrd_sha256);
	put_own_kernel();
	assert_int_equal(images_open(*state, "raw", &image, &why), 0);
	assert_true(image.own);
	assert_content(image.kernel, "our own");
	assert_true(pread(image.initrd, bytes, sizeof(bytes) - 1, 0) > 128);
	assert_memory_equal(bytes, "070701", 6);
	assert_memory_equal(bytes + 110, "init\0", 5);
	assert_string_not_equal(image.initrd_sha256, before);
	assert_int_equal(images_kernel(*state, text, sizeof(text), &why), 0);
	assert_string_equal(text, "own 6.1.0-own");
}

/* The wish decides, and is not silently passed over. */
static void kernel_wish(void **state)
{
	struct images *own = NULL, *stock = NULL;
	char agent[128], text[64];
	struct image image;
	const char *why;

	(void)state;
	snprintf(agent, sizeof(agent), "%s/agent", dir);
	own = images_new(dir, NULL, agent, "own");
	stock = images_new(dir, NULL, agent, "stock");
	assert_non_null(own);
	assert_non_null(stock);
	assert_int_equal(images_open(own, "raw", &image, &why), -ENOENT);
	assert_non_null(strstr(why, "'kernel-own'"));
	assert_true(images_kernel(own, text, sizeof(text), &why) < 0);
	put_own_kernel();
	assert_int_equal(images_open(own, "raw", &image, &why), 0);
	assert_true(image.own);
	assert_int_equal(images_open(stock, "raw", &image, &why), 0);
	assert_false(image.own);
	assert_content(image.kernel, "kernel");
	assert_int_equal(images_kernel(stock, text, sizeof(text), &why), 0);
	assert_string_equal(text, "stock (unnamed)");
	images_free(own);
	images_free(stock);
}

static void bad_names(void **state)
{
	static const char *const names[] = {"", ".", "..", "../templates/raw", "a/b", ".hidden"};
	struct image image;
	const char *why;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(images_open(*state, names[i], &image, &why), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(complete),	T(initrd),	 T(the_same_again),    T(replaced),
		T(added_later), T(not_complete), T(no_kernel),	       T(bad_names),
		T(own_kernel),	T(kernel_wish),	 T(initrd_by_content),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
