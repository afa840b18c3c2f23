/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that only grow: in memory, on their way to disk, on disk, and not at all. */
/* modules: fs/session/spool.c fs/session/depot.c fs/request/touched.c vm/base/lent.c vm/base/fdpass.c tests/unit/fixture/clock_fake.c vm/base/io.c vm/base/turn.c vm/base/blackbox.c vm/base/veil.c vm/base/estate.c vm/base/estate_file.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c vm/base/memory.c vm/base/buf.c vm/base/log.c vm/base/log_line.c vm/base/systemd.c */
/* libs: crypto */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/clock_fake.h"
#include "fs/session/spool.h"
#include "vm/base/util.h"

struct fixture {
	struct depot d;
	struct spool sp;
	char path[64];
	int dir;
	unsigned nrelieved;
};

static void on_relieved(void *data)
{
	((struct fixture *)data)->nrelieved++;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	clock_reset();
	strcpy(f->path, "/tmp/xsbxfs-unit.XXXXXX");
	assert_non_null(mkdtemp(f->path));
	f->dir = open(f->path, O_RDONLY | O_DIRECTORY);
	depot_init(&f->d, NULL, f->dir);
	f->d.relieved = on_relieved;
	f->d.data = f;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	spool_fini(&f->sp, &f->d);
	depot_close(&f->d);
	clock_work();
	assert_true(depot_fini(&f->d));
	close(f->dir);
	(void)rmdir(f->path); /* nothing is left there, whatever happens */
	assert_int_equal(access(f->path, F_OK), -1);
	free(f);
	return 0;
}

static char byte_at(uint64_t i)
{
	return (char)(i * 31 + i / 256);
}

static void append_to(struct fixture *f, struct spool *sp, size_t len)
{
	char *data = malloc(len + 1);

	for (size_t i = 0; i < len; i++)
		data[i] = byte_at(sp->len + i);
	spool_append(sp, &f->d, data, len);
	free(data);
}

static void append(struct fixture *f, size_t len)
{
	const uint64_t before = f->sp.len;

	append_to(f, &f->sp, len);
	assert_int_equal(f->sp.len, before + len);
	assert_int_equal(f->sp.err, 0);
}

/* All that can be read, in pieces of @size. */
static void check_pieces(const struct fixture *f, const struct spool *sp, size_t size)
{
	char *piece = malloc(size);
	uint64_t at = 0;
	ssize_t n;

	while ((n = spool_read(sp, &f->d, at, piece, size)) > 0) {
		assert_int_equal(n, MIN(size, sp->len - at));
		for (ssize_t i = 0; i < n; i++)
			if (piece[i] != byte_at(at + (uint64_t)i))
				fail_msg("another byte at %lu",
					 (unsigned long)at + (unsigned long)i);
		at += (uint64_t)n;
	}
	assert_int_equal(n, sp->err ? -EIO : 0);
	assert_int_equal(at, sp->len);
	n = spool_read(sp, &f->d, UINT64_MAX, piece, 1);
	assert_int_equal(n, sp->err ? -EIO : 0);
	free(piece);
}

static void check(const struct fixture *f, const struct spool *sp)
{
	check_pieces(f, sp, 1000);
	check_pieces(f, sp, 200001);
}

static void test_memory_then_disk(void **state)
{
	static const size_t sizes[] = {
		0, 1, SPOOL_MEMORY - 1, 1, 100, DEPOT_BLOCK, 3 << 20, 7,
	};
	struct fixture *f = *state;

	check(f, &f->sp);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		append(f, sizes[i]);
		check(f, &f->sp);
		if (i % 2)
			clock_work();
		check(f, &f->sp);
	}
	spool_seal(&f->sp, &f->d);
	clock_work();
	check(f, &f->sp);
	assert_int_equal(f->d.waiting, 0);
	for (uint32_t i = 0; i < f->sp.nblocks; i++)
		assert_int_equal(f->sp.block[i]->state, BLOCK_STORED);
}

static void test_small_stays_in_memory(void **state)
{
	struct fixture *f = *state;

	append(f, SPOOL_MEMORY);
	spool_seal(&f->sp, &f->d);
	assert_false(clock_has_work());
	check(f, &f->sp);
}

static unsigned descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Many spools need one descriptor, and no room once they are gone. */
static void test_many(void **state)
{
	struct fixture *f = *state;
	const unsigned before = descriptors();
	struct spool many[50] = {{0}};
	struct stat st;

	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
			append_to(f, &many[i], 20000 + i * 3000);
			spool_seal(&many[i], &f->d);
		}
		clock_work();
		assert_int_equal(descriptors(), before);
		assert_int_equal(fstat(f->d.fd, &st), 0);
		assert_true(st.st_size <= (off_t)(150 * DEPOT_BLOCK)); /* slots are used again */
		assert_true(st.st_blocks > 0);
		for (size_t i = 0; i < ARRAY_SIZE(many); i += 2)
			spool_fini(&many[i], &f->d);
		clock_work();
		for (size_t i = 1; i < ARRAY_SIZE(many); i += 2) {
			check(f, &many[i]);
			spool_fini(&many[i], &f->d);
		}
		clock_work();
		assert_int_equal(f->d.nused, 0);
		assert_int_equal(fstat(f->d.fd, &st), 0);
		assert_int_equal(st.st_blocks, 0);
	}
}

static void test_copy(void **state)
{
	static const size_t sizes[] = {0, 100, SPOOL_MEMORY, DEPOT_BLOCK - 1, 1 << 20};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct spool copy = {0};

		append(f, sizes[i]);
		spool_copy(&copy, &f->sp);
		assert_int_equal(copy.len, f->sp.len);
		check(f, &copy);
		if (i % 2)
			clock_work();
		append_to(f, &copy, 70000); /* has its own end */
		check(f, &copy);
		check(f, &f->sp);
		spool_fini(&copy, &f->d);
		check(f, &f->sp);
	}
}

/* A disk that does nothing: everything can be read, and whoever prints is to wait. */
static void test_slow_disk(void **state)
{
	struct fixture *f = *state;

	append(f, SPOOL_WAITING);
	assert_false(spool_is_behind(&f->sp, &f->d));
	append(f, DEPOT_BLOCK);
	assert_true(spool_is_behind(&f->sp, &f->d));
	append(f, 1 << 20); /* what was under way */
	check(f, &f->sp);
	assert_int_equal(f->nrelieved, 0);
	clock_work();
	assert_true(f->nrelieved > 0);
	assert_false(spool_is_behind(&f->sp, &f->d));
	check(f, &f->sp);
}

/* A full disk takes nothing away; past what memory is for there is one hole, which can't be overlooked. */
static void test_full_disk(void **state)
{
	const struct rlimit small = {2 * DEPOT_BLOCK, RLIM_INFINITY};
	struct fixture *f = *state;
	struct spool copy = {0};
	struct rlimit before;
	char *block = calloc(1, DEPOT_BLOCK);
	uint64_t len;

	getrlimit(RLIMIT_FSIZE, &before);
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &small);
	append(f, 5 * DEPOT_BLOCK);
	clock_work();
	assert_int_equal(f->d.err, -EFBIG);
	check(f, &f->sp);
	append(f, SPOOL_WAITING - DEPOT_BLOCK);
	check(f, &f->sp);
	for (int i = 0; i < 100; i++)
		append_to(f, &f->sp, DEPOT_BLOCK);
	len = f->sp.len;
	assert_int_equal(f->sp.err, -EFBIG);
	assert_true(len > SPOOL_WAITING && len < 2 * SPOOL_WAITING);
	check(f, &f->sp);
	clock_advance(3000);
	clock_work();
	setrlimit(RLIMIT_FSIZE, &before);
	clock_advance(1000);
	clock_work();
	assert_int_equal(f->d.err, 0); /* there is room again */
	assert_int_equal(f->d.waiting, 0);
	check(f, &f->sp);
	append_to(f, &f->sp, 1); /* but there is never a second hole */
	assert_int_equal(f->sp.len, len);
	assert_int_equal(spool_size(&f->sp),
			 5 * DEPOT_BLOCK + SPOOL_WAITING - DEPOT_BLOCK + 100 * DEPOT_BLOCK + 1);
	spool_copy(&copy, &f->sp);
	assert_int_equal(spool_size(&copy), spool_size(&f->sp));
	check(f, &copy);
	spool_fini(&copy, &f->d);
	free(block);
}

/* The directory goes away: before the file is there, and after. */
static void test_no_directory(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(rmdir(f->path), 0);
	append(f, 1 << 20); /* the file is there, and stays */
	clock_work();
	assert_int_equal(f->d.err, 0);
	check(f, &f->sp);
	spool_fini(&f->sp, &f->d);
	depot_close(&f->d);
	clock_work();
	assert_true(depot_fini(&f->d));

	depot_init(&f->d, NULL, f->dir);
	append(f, 1 << 20);
	clock_work();
	assert_true(f->d.err < 0);
	check(f, &f->sp);
	assert_int_equal(mkdir(f->path, 0700), 0);
	close(f->dir);
	f->dir = f->d.dir = open(f->path, O_RDONLY | O_DIRECTORY);
	clock_advance(1000);
	clock_work();
	assert_int_equal(f->d.err, 0);
	assert_int_equal(f->d.waiting, 0);
	check(f, &f->sp);
}

/* What is given up while it waits, or is being written. */
static void test_forgotten_early(void **state)
{
	struct fixture *f = *state;

	append(f, 40 * DEPOT_BLOCK);
	spool_fini(&f->sp, &f->d);
	clock_work();
	assert_int_equal(f->d.waiting, 0);
	assert_int_equal(f->d.nused, 0);
}

/* What is given up while a job of several blocks is at the disk, and another's output waits for the next. */
static void test_forgotten_while_written(void **state)
{
	struct fixture *f = *state;
	struct spool other = {0};

	append(f, 8 * DEPOT_BLOCK);
	assert_true(clock_work_one()); /* the first block alone; the next job has the others */
	append_to(f, &other, 8 * DEPOT_BLOCK);
	spool_fini(&f->sp, &f->d);
	clock_work();
	assert_int_equal(f->d.waiting, 0);
	assert_int_equal(f->d.nused, 8);
	check(f, &other);
	spool_fini(&other, &f->d);
	clock_work();
	assert_int_equal(f->d.nused, 0);
}

/* What a disk may show when the mount is long gone. */
static void test_veiled(void **state)
{
	struct fixture *f = *state;
	static char plain[DEPOT_BLOCK], stored[2][DEPOT_BLOCK];
	struct stat st;
	char piece[100];

	memset(plain, 'x', sizeof(plain));
	for (int i = 0; i < 4; i++)
		spool_append(&f->sp, &f->d, plain, sizeof(plain));
	clock_work();
	assert_int_equal(f->sp.block[0]->state, BLOCK_STORED);
	assert_int_equal(f->sp.block[1]->state, BLOCK_STORED);
	assert_int_equal(fstat(f->d.fd, &st), 0);
	assert_true(st.st_size >= 2 * DEPOT_BLOCK);
	for (off_t at = 0; at < st.st_size; at += DEPOT_BLOCK) {
		assert_int_equal(pread(f->d.fd, stored[0], DEPOT_BLOCK, at), DEPOT_BLOCK);
		assert_null(memmem(stored[0], DEPOT_BLOCK, "xxxxxxxx", 8));
	}
	/* Alike ones are not alike there. */
	assert_int_equal(pread(f->d.fd, stored[0], DEPOT_BLOCK, 0), DEPOT_BLOCK);
	assert_int_equal(pread(f->d.fd, stored[1], DEPOT_BLOCK, DEPOT_BLOCK), DEPOT_BLOCK);
	assert_memory_not_equal(stored[0], stored[1], DEPOT_BLOCK);
	/* Any part can be read. */
	for (uint32_t at = 0; at < 300; at += 7) {
		assert_int_equal(
			depot_fetch(f->d.fd, f->d.key, f->sp.block[1], at, piece, sizeof(piece)),
			0);
		assert_memory_equal(piece, plain, sizeof(piece));
	}
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		test(test_memory_then_disk),
		test(test_small_stays_in_memory),
		test(test_many),
		test(test_veiled),
		test(test_copy),
		test(test_slow_disk),
		test(test_full_disk),
		test(test_no_directory),
		test(test_forgotten_early),
		test(test_forgotten_while_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
