/* SPDX-License-Identifier: Apache-2.0 */
/* Points on disk: as they were, or refused. */
/* modules: vm/checkpoint/point.c vm/checkpoint/point_disk.c vm/base/io.c vm/base/sparse.c vm/base/digest.c vm/base/remove.c */
/* libs: jansson crypto zstd */
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

#include "vm/base/remove.h"
#include "vm/base/util.h"
#include "vm/checkpoint/point_disk.h"
#include "vm/image/layer.h"

#define MB     2u
#define BYTES  (MB << 20)
#define STREAM 300001u

static char top[] = "/tmp/test_point_disk.XXXXXX";
static int bases, disk;
static unsigned ndirs;

struct layer *layer_ref(struct layer *l)
{
	return l;
}

struct layer *layer_put(struct layer *l)
{
	(void)l;
	return NULL;
}

static int file(size_t size, size_t from, size_t len, unsigned seed)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	uint8_t *bytes = malloc(len);

	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)((i * seed) >> 8);
	assert_int_equal(pwrite(fd, bytes, len, (off_t)from), len);
	free(bytes);
	return fd;
}

static struct point *a_point(unsigned seed)
{
	struct point *p = point_new();

	p->base = file(BYTES, 123456, 1000000, 77);
	p->stream = file(STREAM, 0, STREAM, seed);
	p->disk = fcntl(disk, F_DUPFD_CLOEXEC, 3);
	p->generation = 9;
	p->tsc_khz = 2100000;
	p->own_kernel = true;
	p->fit = (struct point_fit){.memory_mb = MB, .cpus = 3, .root = true};
	return p;
}

static int new_dir(char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%u", top, ndirs++);
	assert_int_equal(mkdir(path, 0700), 0);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void assert_same(int a, int b)
{
	struct stat st, other;
	uint8_t *x, *y;

	assert_int_equal(fstat(a, &st), 0);
	assert_int_equal(fstat(b, &other), 0);
	assert_int_equal(st.st_size, other.st_size);
	x = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, a, 0);
	y = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, b, 0);
	assert_memory_equal(x, y, st.st_size);
	munmap(x, (size_t)st.st_size);
	munmap(y, (size_t)st.st_size);
}

static int load(int dir, const char *machine, const struct point *like, struct point **ret)
{
	const struct point_needs needs = {.machine = machine, .disk = disk};

	return point_load(dir, &needs, like, ret);
}

static void comes_back(void **state)
{
	struct point *p = a_point(3), *q;
	_cleanup_close_ int dir = -1;
	char path[PATH_MAX];
	struct stat st;

	(void)state;
	dir = new_dir(path);
	assert_int_equal(load(dir, "a machine", NULL, &q), -ENOENT);
	assert_int_equal(point_store(dir, bases, p, "a machine"), 0);
	assert_int_equal(load(dir, "another", NULL, &q), -ESTALE);
	assert_int_equal(load(dir, "a machine", NULL, &q), 0);
	assert_int_equal(fstat(q->base, &st), 0);
	assert_true(st.st_blocks * 512 <
		    1100000); /* its holes are holes, as long as nobody reads them */
	assert_same(p->base, q->base);
	assert_same(p->stream, q->stream);
	assert_true(fcntl(q->base, F_GET_SEALS) & F_SEAL_WRITE);
	assert_int_equal(q->generation, 9);
	assert_int_equal(q->tsc_khz, 2100000);
	assert_true(q->own_kernel && !q->kvm && q->fit.root && !q->fit.network);
	assert_int_equal(q->fit.cpus, 3);
	point_unref(q);
	point_unref(p);
}

static ino_t base_of(int dir)
{
	struct stat st;

	assert_int_equal(fstatat(dir, "base.zst", &st, 0), 0);
	return st.st_ino;
}

/* Of a base that many have there is one, on the disk and in memory, and none when all are gone. */
static void bases_are_shared(void **state)
{
	struct point *p = a_point(3), *q = a_point(5), *r;
	_cleanup_close_ int one = -1, two = -1;
	char path[2][PATH_MAX];
	struct stat st, other;

	(void)state;
	one = new_dir(path[0]);
	two = new_dir(path[1]);
	assert_int_equal(point_store(one, bases, p, "m"), 0);
	assert_int_equal(point_store(two, bases, q, "m"), 0);
	assert_int_equal(base_of(one), base_of(two));
	assert_int_equal(load(two, "m", p, &r), 0);
	fstat(p->base, &st);
	fstat(r->base, &other);
	assert_int_equal(st.st_ino, other.st_ino);
	assert_same(r->stream, q->stream);
	point_unref(r);
	remove_tree(path[0]);
	point_clean(bases);
	assert_int_equal(load(two, "m", NULL, &r), 0);
	assert_same(r->base, p->base);
	point_unref(r);
	point_unref(p);
	point_unref(q);
}

static void damage(int dir, const char *name, off_t at, const char *bytes)
{
	_cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);

	if (!bytes)
		assert_int_equal(ftruncate(fd, at), 0);
	else
		assert_int_equal(pwrite(fd, bytes, strlen(bytes), at), strlen(bytes));
}

/* Whatever is changed of its files, nothing else than what was stored is taken for it. */
static void damaged(void **state)
{
	static const struct {
		const char *name, *bytes;
		off_t at;
	} cases[] = {
		{"stream.zst", "x", 0},
		{"stream.zst", "\xff\xff\xff\xff", 8},
		{"stream.zst", "\xff\xff\xff\xff", 12},
		{"stream.zst", "xyz", 1000},
		{"stream.zst", NULL, 20000},
		{"stream.zst", NULL, 7},
		{"stream.zst", NULL, 0},
		{"base.zst", "\xff\xff\xff", 4},
		{"base.zst", "x", 500},
		{"point.json", "[", 0},
		{"point.json", NULL, 0},
		{"point.json", NULL, 100},
	};
	struct point *p = a_point(3), *q;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_close_ int dir = -1, own = -1;
		char path[PATH_MAX];

		own = new_dir(path); /* of bases: the damage is nobody else's */
		dir = new_dir(path);
		assert_int_equal(point_store(dir, own, p, "m"), 0);
		damage(dir, cases[i].name, cases[i].at, cases[i].bytes);
		assert_int_equal(load(dir, "m", NULL, &q), -EBADMSG);
	}
	point_unref(p);
}

static int setup(void **state)
{
	char path[PATH_MAX];

	(void)state;
	if (!mkdtemp(top))
		return -1;
	bases = new_dir(path);
	disk = file(4096, 0, 4096, 3);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(bases);
	close(disk);
	return remove_tree(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_back),
		cmocka_unit_test(bases_are_shared),
		cmocka_unit_test(damaged),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
