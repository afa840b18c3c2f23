/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of what was saved when the disk is not as it was, or refuses. */
/* modules: vm tests/unit/fixture/saved_fixture.c tests/unit/fixture/vault_fixture.c */
/* libs: uv crypto jansson seccomp zstd */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "tests/unit/fixture/saved_fixture.h"
#include "tests/unit/fixture/vault_fixture.h"
#include "vm/base/util.h"

static void path_of(char path[PATH_MAX + 64], const char *id, const char *file)
{
	snprintf(path, PATH_MAX + 64, "%s/saved/%s/%s", vf_top, id, file);
}

/* Inverts a byte, @at thousandths of the file from its begin. Return: where it was. */
static off_t flip(const char *id, const char *file, unsigned at)
{
	char path[PATH_MAX + 64], byte;
	_cleanup_close_ int fd = -1;
	struct stat st;
	off_t place;

	path_of(path, id, file);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	place = MIN(st.st_size * at / 1000, st.st_size - 1);
	assert_int_equal(pread(fd, &byte, 1, place), 1);
	byte = (char)~byte;
	assert_int_equal(pwrite(fd, &byte, 1, place), 1);
	return place;
}

/* In every region of every file. Nothing else is ever taken for what was saved, and what is whole is there. */
static void damaged(void **state)
{
	static const char *const files[] = {"head", "pack", "stream", "base"};
	struct saved *s, *t;
	struct problem why;
	char id[SAVED_ID_MAX];

	(void)state;
	for (unsigned f = 0; f < ARRAY_SIZE(files); f++) {
		for (unsigned at = 0; at <= 1000; at += 100) {
			off_t place;
			int r;

			vf_begin();
			s = vf_stored(8, true);
			snprintf(id, sizeof(id), "%s", saved_id(s));
			saved_unref(s);
			vf_close();
			place = flip(id, files[f], at);
			vf_begin();
			r = vault_find(vf_vault, id, &t, &why);
			if (f == 0) {
				assert_int_equal(r, place >= 12 && place < 20 ? -EKEYREJECTED
									      : -EBADMSG);
				assert_int_equal(why.code, PROBLEM_NOT_RESTORED);
			} else {
				assert_int_equal(r, 0);
				why = vf_load(t, false);
				assert_int_equal(why.code, PROBLEM_NOT_RESTORED);
				assert_non_null(strstr(why.cause, place >= 12 && place < 20
									  ? "another key"
									  : "damaged"));
				assert_null(saved_point(t));
				/* Its files are there, if they are whole. */
				assert_int_equal(saved_pack(t) != NULL, f > 1);
				assert_int_equal(saved_is_damaged(t),
						 f == 1 && !strstr(why.cause, "another key"));
				if (f > 1)
					vf_same(t, 8, false);
				saved_unref(t);
			}
			vault_keep(vf_vault, NULL, 0);
			vf_settle();
			vf_close();
		}
	}
}

static void cut_off(void **state)
{
	static const char *const files[] = {"head", "pack", "stream"};
	char id[SAVED_ID_MAX], path[PATH_MAX + 64];
	struct saved *s;
	struct stat st;

	(void)state;
	for (unsigned f = 0; f < ARRAY_SIZE(files); f++) {
		for (unsigned part = 0; part < 5; part++) {
			vf_begin();
			s = vf_stored(9, true);
			snprintf(id, sizeof(id), "%s", saved_id(s));
			saved_unref(s);
			vf_close();
			path_of(path, id, files[f]);
			assert_int_equal(stat(path, &st), 0);
			assert_int_equal(part == 4 ? unlink(path)
						   : truncate(path, st.st_size * part / 4),
					 0);
			vf_begin();
			if (f == 0) {
				assert_int_equal(vault_find(vf_vault, id, &s, NULL), -EBADMSG);
			} else {
				assert_int_equal(vault_find(vf_vault, id, &s, NULL), 0);
				assert_int_equal(vf_load(s, false).code, PROBLEM_NOT_RESTORED);
				saved_unref(s);
			}
			vault_keep(vf_vault, NULL, 0);
			vf_settle();
			vf_close();
		}
	}
}

/* Instead of the library's, which takes memory when it sees how large the window is. */
static bool without_memory;

size_t ZSTD_decompressStream(ZSTD_DStream *z, ZSTD_outBuffer *out, ZSTD_inBuffer *in)
{
	static size_t (*real)(ZSTD_DStream *, ZSTD_outBuffer *, ZSTD_inBuffer *);
	void *found;

	if (without_memory)
		return (size_t)-ZSTD_error_memory_allocation;
	if (!real) {
		found = dlsym(RTLD_NEXT, "ZSTD_decompressStream");
		assert_non_null(found);
		memcpy(&real, &found, sizeof(real));
	}
	return real(z, out, in);
}

/* What can't be read now, or by this version, is not damaged, and nothing is given up for it. */
static void not_damaged(void **state)
{
	struct saved *s;
	struct problem why;
	char id[SAVED_ID_MAX], path[PATH_MAX + 64];
	const char another = 99;
	int fd;

	(void)state;
	vf_begin();
	s = vf_stored(8, true);
	snprintf(id, sizeof(id), "%s", saved_id(s));
	without_memory = true;
	why = vf_load(s, true);
	without_memory = false;
	assert_int_equal(why.code, PROBLEM_NO_RESOURCES);
	assert_false(saved_is_damaged(s));
	assert_int_equal(vf_load(s, false).code, 0);
	vf_same(s, 8, true);
	saved_unload(s);
	path_of(path, id, "pack");
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, &another, 1, 8), 1);
	close(fd);
	why = vf_load(s, true);
	assert_int_equal(why.code, PROBLEM_NO_RESOURCES);
	assert_non_null(strstr(why.cause, "of another version"));
	assert_false(saved_is_damaged(s));
	saved_unref(s);
	vf_close();
}

/* Return: which it was. */
static char version_of_pack(const char *id, char version)
{
	char path[PATH_MAX + 64], was;
	_cleanup_close_ int fd = -1;

	path_of(path, id, "pack");
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &was, 1, 8), 1);
	assert_int_equal(pwrite(fd, &version, 1, 8), 1);
	return was;
}

/* Once it was found to be damaged it is, until it was read well. */
static void stays_damaged(void **state)
{
	char id[SAVED_ID_MAX], was;
	struct saved *s;

	(void)state;
	vf_begin();
	s = vf_stored(8, false);
	snprintf(id, sizeof(id), "%s", saved_id(s));
	was = version_of_pack(id, 99);
	version_of_pack(id, was);
	flip(id, "pack", 500);
	assert_int_equal(vf_load(s, true).code, PROBLEM_NOT_RESTORED);
	assert_true(saved_is_damaged(s));
	version_of_pack(id, 99);
	assert_int_equal(vf_load(s, true).code, PROBLEM_NO_RESOURCES);
	assert_true(saved_is_damaged(s));
	version_of_pack(id, was);
	flip(id, "pack", 500);
	assert_int_equal(vf_load(s, true).code, 0);
	assert_false(saved_is_damaged(s));
	saved_unref(s);
	vf_close();
}

/* What stands for one whose head is damaged has its name, and it is there for as long as that. */
static void stands_in(void **state)
{
	char id[SAVED_ID_MAX];
	struct saved *s, *t, *files;
	struct problem why;

	(void)state;
	vf_begin();
	s = vf_stored(8, true);
	snprintf(id, sizeof(id), "%s", saved_id(s));
	saved_unref(s);
	vf_close();
	flip(id, "head", 700);
	vf_begin();
	assert_int_equal(vault_find(vf_vault, id, &s, &why), -EBADMSG);
	assert_int_equal(vault_stand_in(vf_vault, id, &s), 0);
	assert_int_equal(vault_find(vf_vault, id, &t, &why), -EBADMSG);
	assert_int_equal(why.code, PROBLEM_NOT_RESTORED);
	assert_int_equal(vault_stand_in(vf_vault, id, &t), 0);
	assert_ptr_equal(s, t);
	assert_true(saved_is_damaged(s));
	assert_string_equal(saved_id(s), id);
	files = saved_files_only(s);
	assert_int_equal(vf_load(s, true).code, PROBLEM_NOT_RESTORED);
	assert_int_equal(vf_load(files, true).code, PROBLEM_NOT_RESTORED);
	saved_unref(files);
	saved_unref(t);
	vault_keep(vf_vault, NULL, 0);
	vault_forget(vf_vault, vault_mark(vf_vault));
	vf_settle();
	assert_int_equal(vf_count(""), 1);
	/* It may be mended there. */
	flip(id, "head", 700);
	saved_unref(s);
	assert_int_equal(vault_find(vf_vault, id, &s, NULL), 0);
	assert_int_equal(vf_load(s, false).code, 0);
	vf_same(s, 8, true);
	saved_unref(s);
	flip(id, "head", 700);
	assert_int_equal(vault_stand_in(vf_vault, id, &s), 0);
	saved_unref(s);
	vault_forget(vf_vault, vault_mark(vf_vault));
	vf_settle();
	assert_int_equal(vf_count(""), 0);
	vf_close();
}

/* A file of one does not stand for that of another, nor a whole directory. */
static void exchanged(void **state)
{
	static const char *const files[] = {"head", "pack", "stream"};
	char one[SAVED_ID_MAX], two[SAVED_ID_MAX], a[PATH_MAX + 64], b[PATH_MAX + 64];
	struct saved *s, *t;

	(void)state;
	for (unsigned f = 0; f <= ARRAY_SIZE(files); f++) {
		vf_begin();
		s = vf_stored(10, true);
		t = vf_stored(10, true);
		snprintf(one, sizeof(one), "%s", saved_id(s));
		snprintf(two, sizeof(two), "%s", saved_id(t));
		saved_unref(s);
		saved_unref(t);
		vf_close();
		path_of(a, one, f < ARRAY_SIZE(files) ? files[f] : "");
		path_of(b, two, f < ARRAY_SIZE(files) ? files[f] : "");
		assert_int_equal(renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE), 0);
		vf_begin();
		if (f == 0 || f == ARRAY_SIZE(files)) {
			assert_int_equal(vault_find(vf_vault, one, &s, NULL), -EBADMSG);
		} else {
			assert_int_equal(vault_find(vf_vault, one, &s, NULL), 0);
			assert_int_equal(vf_load(s, false).code, PROBLEM_NOT_RESTORED);
			assert_int_equal(saved_pack(s) != NULL, f == 2);
			saved_unref(s);
		}
		vault_keep(vf_vault, NULL, 0);
		vf_settle();
		vf_close();
	}
}

/* Nothing is removed, and with the right key all of it is there. */
static void another_key(void **state)
{
	struct saved *s;
	struct problem why;
	char id[SAVED_ID_MAX];

	(void)state;
	vf_begin();
	s = vf_stored(11, true);
	snprintf(id, sizeof(id), "%s", saved_id(s));
	saved_unref(s);
	vf_close();
	assert_int_equal(vf_open(2, &why), -EKEYREJECTED);
	assert_non_null(strstr(why.cause, "sealed with another key"));
	vf_close();
	vf_begin();
	assert_int_equal(vault_find(vf_vault, id, &s, NULL), 0);
	assert_int_equal(vf_load(s, false).code, 0);
	vf_same(s, 11, true);
	saved_unref(s);
	vf_close();
}

/* What the key is known by is damaged, in each of its bytes: what else is there tells whose key it is. */
static void a_damaged_check(void **state)
{
	struct problem why;
	char path[PATH_MAX + 64];
	struct stat st;
	off_t size;

	(void)state;
	vf_begin();
	saved_unref(vf_stored(3, true));
	vf_close();
	snprintf(path, sizeof(path), "%s/saved/check", vf_top);
	assert_int_equal(stat(path, &st), 0);
	size = st.st_size;
	for (off_t at = 0; at < size; at++) {
		flip(".", "check", (unsigned)((at * 1000 + size - 1) / size));
		assert_int_equal(vf_open(2, &why), -EKEYREJECTED);
		vf_close();
		assert_int_equal(vf_open(1, &why), 0);
		vf_close();
	}
	assert_int_equal(vf_open(2, &why), -EKEYREJECTED);
	vf_close();
	assert_int_equal(vf_count(""), 1);
}

/* The damaged base of one is not given to the next. */
static void a_damaged_base_is_not_passed_on(void **state)
{
	struct saved *s, *t;
	char id[SAVED_ID_MAX];

	(void)state;
	vf_begin();
	s = vf_stored(12, true);
	snprintf(id, sizeof(id), "%s", saved_id(s));
	saved_unref(s);
	vf_close();
	flip(id, "base", 500);
	vf_begin();
	assert_int_equal(vault_find(vf_vault, id, &s, NULL), 0);
	assert_int_equal(vf_load(s, false).code, PROBLEM_NOT_RESTORED);
	t = vf_stored(13, true);
	snprintf(id, sizeof(id), "%s", saved_id(t));
	saved_unref(s);
	saved_unref(t);
	vf_close();
	vf_begin();
	assert_int_equal(vault_find(vf_vault, id, &t, NULL), 0);
	assert_int_equal(vf_load(t, false).code, 0);
	vf_same(t, 13, true);
	saved_unref(t);
	vf_close();
}

/* ---- the disk ---- */

static bool mount_small(const char *path)
{
	return mount("none", path, "tmpfs", MS_NOSUID | MS_NODEV, "size=256k") == 0;
}

/* It stays in memory, that is said, and nothing is left of the attempt. */
static void the_disk_is_full(void **state)
{
	struct vf_answer a = {.n = 0};
	struct saved *s;

	(void)state;
	if (!mount_small(vf_top)) {
		print_message("no small disk can be mounted here: %s\n", strerror(errno));
		skip();
	}
	vf_begin();
	s = saved_new(saved_fixture_pack(1, 2000000), NULL);
	vault_store(vf_vault, s, vf_stored_answer, &a);
	vf_settle();
	assert_int_equal(a.err, -ENOSPC);
	assert_int_equal(a.why.code, PROBLEM_NOT_SAVED);
	assert_non_null(strstr(a.why.fix, "Free space"));
	assert_null(saved_id(s));
	assert_non_null(saved_pack(s));
	assert_int_equal(vf_count(""), 0);
	saved_unref(s);
	/* A small one goes in. */
	s = saved_new(saved_fixture_pack(1, 2000), NULL);
	assert_int_equal(vf_store(s), 0);

	/* And none when nothing can be written. */
	assert_int_equal(mount(NULL, vf_top, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	saved_unload(s);
	assert_int_equal(vf_load(s, false).code, 0);
	saved_unref(s);
	s = saved_new(saved_fixture_pack(2, 2000), NULL);
	a = (struct vf_answer){.n = 0};
	vault_store(vf_vault, s, vf_stored_answer, &a);
	vf_settle();
	assert_int_equal(a.err, -EROFS);
	saved_unref(s);
	vf_close();
	assert_int_equal(umount2(vf_top, MNT_DETACH), 0);
}

static ino_t fails_to_sync; /* a directory; 0: none */

int fsync(int fd)
{
	struct stat st;

	if (fails_to_sync && fstat(fd, &st) == 0 && st.st_ino == fails_to_sync) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fsync, fd);
}

/* What is whole but for its name, which may not be on the disk, is not left: each attempt would leave another. */
static void its_name_is_not_synced(void **state)
{
	struct saved *s;
	struct stat st;
	char path[PATH_MAX + 64];

	(void)state;
	vf_begin();
	snprintf(path, sizeof(path), "%s/saved", vf_top);
	assert_int_equal(stat(path, &st), 0);
	s = saved_new(saved_fixture_pack(1, 2000), NULL);
	fails_to_sync = st.st_ino;
	assert_int_equal(vf_store(s), -EIO);
	assert_int_equal(vf_store(s), -EIO);
	fails_to_sync = 0;
	assert_null(saved_id(s));
	assert_int_equal(vf_count(""), 0);
	assert_int_equal(vf_store(s), 0);
	assert_int_equal(vf_count(""), 1);
	saved_unref(s);
	vf_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		VF_TEST(damaged),
		VF_TEST(cut_off),
		VF_TEST(exchanged),
		VF_TEST(another_key),
		VF_TEST(not_damaged),
		VF_TEST(stays_damaged),
		VF_TEST(stands_in),
		VF_TEST(a_damaged_check),
		VF_TEST(a_damaged_base_is_not_passed_on),
		VF_TEST(the_disk_is_full),
		VF_TEST(its_name_is_not_synced),
	};

	return vf_run(tests);
}
