/* SPDX-License-Identifier: Apache-2.0 */
/* Points on disk: as they were, or refused. */
/* modules: vm/checkpoint/point_disk.c vm/checkpoint/packed_ram.c vm/base/sparse.c vm/base/digest.c vm/base/record.c vm/base/remove.c tests/unit/fixture/saved_fixture.c */
/* libs: crypto zstd uv */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "tests/unit/fixture/saved_fixture.h"
#include "vm/base/remove.h"
#include "vm/base/util.h"
#include "vm/checkpoint/packed_ram.h"
#include "vm/checkpoint/point_disk.h"
#include "vm/image/layer.h"

static char top[] = "/tmp/test_point_disk.XXXXXX";
static int bases;
static unsigned ndirs;
static struct seal_key *key;

struct layer *layer_ref(struct layer *l)
{
	return l;
}

struct layer *layer_put(struct layer *l)
{
	(void)l;
	return NULL;
}

static int new_dir(char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%u", top, ndirs++);
	assert_int_equal(mkdir(path, 0700), 0);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The facts go through bytes, as they do on a disk. Return: what lies behind them. */
static struct buf through_bytes(struct point_facts *f)
{
	struct buf bytes = {0};
	size_t at = record_begin(&bytes, 1, 1), inside = record_open(&bytes, 5);
	struct record_reader in;
	struct record record;
	struct record_field field;

	point_facts_put(&bytes, f);
	record_close(&bytes, inside);
	assert_int_equal(record_end(&bytes, at), 0);
	in = record_reader(bytes.data, bytes.len);
	assert_int_equal(record_next(&in, &record), 1);
	assert_int_equal(record_field(&record.fields, &field), 1);
	assert_int_equal(point_facts_get(&field, f), 0);
	return bytes;
}

static void comes_back(void **state)
{
	struct point *p = saved_fixture_point(3, 77), *q;
	_cleanup_close_ int dir = -1, disk = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	struct point_facts f;
	char path[PATH_MAX], word[32];
	struct buf bytes;
	struct stat st;

	(void)state;
	dir = new_dir(path);
	assert_int_equal(point_store(key, "id", dir, bases, p, "", &f), 0);
	bytes = through_bytes(&f);
	assert_int_equal(point_load(key, "another", dir, &f, -1, &q), -EBADMSG);
	assert_int_equal(point_load(key, "id", dir, &f, -1, &q), 0);
	assert_int_equal(fstat(q->base, &st), 0);
	/* Its holes are holes, as long as nobody reads them. */
	assert_true(st.st_blocks * 512 < 1100000);
	saved_fixture_same_file(p->base, q->base);
	saved_fixture_same_file(p->stream, q->stream);
	assert_true(fcntl(q->base, F_GET_SEALS) & F_SEAL_WRITE);
	assert_true(fcntl(q->stream, F_GET_SEALS) & F_SEAL_WRITE);
	assert_int_equal(q->generation, 9);
	assert_int_equal(q->tsc_khz, 2100000);
	assert_true(q->own_kernel && !q->kvm && q->fit.root && !q->fit.network);
	assert_int_equal(q->fit.cpus, 3);
	assert_string_equal(q->fit.interpreter, "another one");
	point_differs(q, "kernel 1\nqemu 7.2\n", word);
	assert_string_equal(word, "");
	point_differs(q, "kernel 1\nqemu 10.0\n", word);
	assert_string_equal(word, "qemu");
	assert_int_equal(q->disk, -1);
	assert_int_equal(point_settle(q, disk, NULL), 0);
	assert_true(q->disk >= 0 && q->disk != disk);
	point_unref(q);
	point_unref(p);
	buf_clear(&bytes);
}

static ino_t base_of(int dir)
{
	struct stat st;

	assert_int_equal(fstatat(dir, "base", &st, 0), 0);
	return st.st_ino;
}

/* Of a base that many have there is one, on the disk and in memory, and none when all are gone. */
static void bases_are_shared(void **state)
{
	struct point *p = saved_fixture_point(3, 77), *q = saved_fixture_point(5, 77), *r;
	_cleanup_close_ int one = -1, two = -1;
	struct point_facts f, g;
	char path[2][PATH_MAX];
	struct stat st, other;

	(void)state;
	one = new_dir(path[0]);
	two = new_dir(path[1]);
	assert_int_equal(point_store(key, "one", one, bases, p, "", &f), 0);
	assert_int_equal(point_store(key, "two", two, bases, q, f.base_sum, &g), 0);
	assert_int_equal(base_of(one), base_of(two));
	assert_int_equal(point_load(key, "two", two, &g, p->base, &r), 0);
	fstat(p->base, &st);
	fstat(r->base, &other);
	assert_int_equal(st.st_ino, other.st_ino);
	saved_fixture_same_file(r->stream, q->stream);
	point_unref(r);
	remove_tree(path[0]);
	point_clean(bases);
	assert_int_equal(point_load(key, "two", two, &g, -1, &r), 0);
	saved_fixture_same_file(r->base, p->base);
	point_unref(r);
	point_unref(p);
	point_unref(q);
}

static void damage(int dir, const char *name, off_t at)
{
	_cleanup_close_ int fd = openat(dir, name, O_RDWR | O_CLOEXEC);
	char byte;

	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte = (char)~byte;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
}

/* Whatever is changed of its files, nothing else than what was stored is taken for it. */
static void damaged(void **state)
{
	struct point *p = saved_fixture_point(3, 77), *q;

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		const char *name = i % 2 ? "stream" : "base";
		_cleanup_close_ int dir = -1, own = -1;
		struct point_facts f;
		char path[PATH_MAX];
		struct stat st;

		own = new_dir(path); /* of bases: the damage is nobody else's */
		dir = new_dir(path);
		assert_int_equal(point_store(key, "id", dir, own, p, "", &f), 0);
		assert_int_equal(fstatat(dir, name, &st, 0), 0);
		if (i < 30) {
			damage(dir, name,
			       st.st_size / 30 * i + (i == 29 ? st.st_size / 30 - 1 : 0));
		} else {
			_cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);

			assert_int_equal(ftruncate(fd, st.st_size / 10 * (i - 30)), 0);
		}
		assert_int_equal(point_load(key, "id", dir, &f, -1, &q), -EBADMSG);
	}
	point_unref(p);
}

/* What is in the seal can only be what was written; but let it be anything. */
static void packed_is_checked(void **state)
{
	static const struct {
		uint64_t at;
		uint32_t stored, len;
	} heads[] = {
		{0, 10, 0},    {0, 10, 1u << 20}, {0, 1u << 20, 4096},
		{1, 10, 4096}, {8192, 10, 4096},  {UINT64_MAX - 4095, 10, 4096},
		{0, 10, 4096},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		_cleanup_close_ int fd = memfd_create("test", MFD_CLOEXEC);
		struct file_source from = file_source(fd);

		assert_int_equal(write(fd, &heads[i], 16), 16);
		assert_int_equal(write(fd, "0123456789", 10), 10);
		lseek(fd, 0, SEEK_SET);
		assert_int_equal(packed_ram_read(&from.source, 8192), -EBADMSG);
	}
}

static int setup(void **state)
{
	char path[PATH_MAX];

	(void)state;
	if (!mkdtemp(top))
		return -1;
	bases = new_dir(path);
	key = saved_fixture_key(1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(bases);
	key = seal_key_free(key);
	return remove_tree(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_back),
		cmocka_unit_test(bases_are_shared),
		cmocka_unit_test(damaged),
		cmocka_unit_test(packed_is_checked),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
