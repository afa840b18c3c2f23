/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that only grow, in memory and on disk. */
/* modules: fs/spool.c vm/fileio.c vm/buf.c */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <signal.h>
#include <cmocka.h>

#include "fs/spool.h"

struct fixture {
	struct spool sp;
	char path[64];
	int dir;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->path, "/tmp/xsbxfs-unit.XXXXXX");
	assert_non_null(mkdtemp(f->path));
	f->dir = open(f->path, O_RDONLY | O_DIRECTORY);
	spool_init(&f->sp);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	spool_fini(&f->sp);
	close(f->dir);
	assert_int_equal(rmdir(f->path), 0); /* nothing is left, whatever happens */
	free(f);
	return 0;
}

static char byte_at(uint64_t i)
{
	return (char)(i * 31 + i / 256);
}

static void append(struct fixture *f, size_t len)
{
	char *data = malloc(len);

	for (size_t i = 0; i < len; i++)
		data[i] = byte_at(f->sp.len + i);
	assert_int_equal(spool_append(&f->sp, f->dir, data, len), 0);
	free(data);
}

static void check(const struct spool *sp)
{
	char piece[1000];
	uint64_t at = 0;
	ssize_t n;

	while ((n = spool_read(sp, at, piece, sizeof(piece))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			assert_int_equal(piece[i], byte_at(at + (uint64_t)i));
		at += (uint64_t)n;
	}
	assert_int_equal(n, 0);
	assert_int_equal(at, sp->len);
	assert_int_equal(spool_read(sp, sp->len + 1, piece, 1), 0);
	assert_int_equal(spool_read(sp, UINT64_MAX, piece, 1), 0);
}

static void test_memory_then_file(void **state)
{
	struct fixture *f = *state;

	check(&f->sp);
	append(f, 0);
	append(f, 1);
	append(f, SPOOL_MEMORY - 1);
	assert_int_equal(f->sp.fd, -1);
	check(&f->sp);
	append(f, 1);
	assert_true(f->sp.fd >= 0);
	check(&f->sp);
	append(f, 1 << 20);
	append(f, 7);
	check(&f->sp);
}

static void test_one_large_piece(void **state)
{
	struct fixture *f = *state;

	append(f, 3 << 20);
	check(&f->sp);
}

static void test_copy(void **state)
{
	static const size_t sizes[] = {0, 100, SPOOL_MEMORY, SPOOL_MEMORY + 1, 1 << 20};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct spool copy;

		spool_init(&copy);
		append(f, sizes[i]);
		assert_int_equal(spool_copy(&copy, &f->sp, f->dir), 0);
		assert_int_equal(copy.len, f->sp.len);
		check(&copy);
		assert_int_equal(spool_append(&copy, f->dir, "x", 1), 0);
		check(&f->sp); /* they share nothing */
		spool_fini(&copy);
	}
}

static void test_disk_full(void **state)
{
	const struct rlimit small = {64 << 10, RLIM_INFINITY};
	struct fixture *f = *state;
	struct rlimit before;
	char block[4096] = {0};
	uint64_t len;

	getrlimit(RLIMIT_FSIZE, &before);
	signal(SIGXFSZ, SIG_IGN);
	append(f, SPOOL_MEMORY + 1);
	setrlimit(RLIMIT_FSIZE, &small);
	append(f, 40 << 10);
	len = f->sp.len;
	while (spool_append(&f->sp, f->dir, block, sizeof(block)) == 0)
		len += sizeof(block);
	setrlimit(RLIMIT_FSIZE, &before);
	assert_int_equal(f->sp.err, -EFBIG);
	assert_int_equal(f->sp.len, len); /* what was there before stays readable */
	assert_int_equal(spool_append(&f->sp, f->dir, "x", 1), -EFBIG); /* no gap later */
	assert_int_equal(spool_read(&f->sp, len, block, 1), 0);
	assert_int_equal(spool_read(&f->sp, 0, block, 1), 1);
}

static void test_no_directory(void **state)
{
	struct fixture *f = *state;
	char big[SPOOL_MEMORY + 1] = {0};

	append(f, 10);
	assert_int_equal(spool_append(&f->sp, -1, big, sizeof(big)), -EBADF);
	check(&f->sp);
	assert_int_equal(f->sp.len, 10);
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		test(test_memory_then_file), test(test_one_large_piece), test(test_copy),
		test(test_disk_full),	     test(test_no_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
