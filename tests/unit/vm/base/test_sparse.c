/* SPDX-License-Identifier: Apache-2.0 */
/* Files with holes: what is found, written, copied, and what its checksum is. */
/* modules: vm/base/sparse.c vm/base/io.c vm/base/digest.c */
/* libs: crypto */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/sparse.h"

static int file(off_t size)
{
	const int fd = memfd_create("file", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	return fd;
}

static void put(int fd, const void *data, size_t len, off_t at)
{
	assert_int_equal(pwrite(fd, data, len, at), len);
}

static void zeroes(void **state)
{
	static char page[SPARSE_PAGE];
	static const size_t lengths[] = {1, 2, 7, 8, 9, 63, 64, 65, 4095, SPARSE_PAGE};

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		const size_t len = lengths[i], places[] = {0, len / 2, len - 1};

		assert_true(sparse_is_zero(page, len));
		for (size_t p = 0; p < 3; p++) {
			page[places[p]] = 1;
			assert_false(sparse_is_zero(page, len));
			page[places[p]] = (char)0x80;
			assert_false(sparse_is_zero(page, len));
			page[places[p]] = 0;
		}
		/* What lies behind it says nothing. */
		if (len < sizeof(page)) {
			page[len] = 1;
			assert_true(sparse_is_zero(page, len));
			page[len] = 0;
		}
	}
}

static void holes(void **state)
{
	const int a = file(1 << 20), b = file(1 << 20);
	static char data[5 * SPARSE_PAGE];
	char one[DIGEST_HEX], two[DIGEST_HEX];

	(void)state;
	data[2 * SPARSE_PAGE + 5] = 1;
	data[sizeof(data) - 1] = 2;
	assert_int_equal(sparse_write(a, data, sizeof(data), 8 * SPARSE_PAGE), 0);
	assert_int_equal(sparse_next(a, 0, 1 << 20), 10 * SPARSE_PAGE);
	assert_int_equal(sparse_next(a, 11 * SPARSE_PAGE, 1 << 20), 12 * SPARSE_PAGE);
	assert_int_equal(sparse_next(a, 13 * SPARSE_PAGE, 1 << 20), 1 << 20);
	assert_int_equal(sparse_sum(a, 1 << 20, one), 0);
	put(b, data, sizeof(data), 8 * SPARSE_PAGE);
	assert_int_equal(sparse_sum(b, 1 << 20, two), 0);
	assert_string_equal(one, two);
	put(b, "x", 1, 0);
	assert_int_equal(sparse_sum(b, 1 << 20, two), 0);
	assert_string_not_equal(one, two);
	close(a);
	close(b);
}

/* Pieces of all lengths at all places, the end among them: the same bytes, the same checksum, no more space. */
static void copies(void **state)
{
	enum { SIZE = (5 << 20) + 1234 };
	char *before = malloc(SIZE), *after = malloc(SIZE);
	char sum[DIGEST_HEX], copied[DIGEST_HEX];
	const int from = file(SIZE), to = file(0);
	struct stat st;

	(void)state;
	assert_true(before && after);
	put(from, "begin", 5, 0);
	put(from, "end", 3, SIZE - 3);
	put(from, "x", 1, 3 * SPARSE_PAGE - 1);
	put(from, "\0\0\0", 3, 100 * SPARSE_PAGE); /* written, but nothing */
	memset(before, 'm', 1 << 20);
	put(from, before, 1 << 20, (2 << 20) + 77);
	assert_int_equal(sparse_copy(from, to, SIZE, copied), 0);
	assert_int_equal(fstat(to, &st), 0);
	assert_int_equal(st.st_size, SIZE);
	assert_true(st.st_blocks * 512 <= (1 << 20) + 4 * (off_t)SPARSE_PAGE);
	assert_int_equal(pread(from, before, SIZE, 0), SIZE);
	assert_int_equal(pread(to, after, SIZE, 0), SIZE);
	assert_int_equal(memcmp(before, after, SIZE), 0);
	assert_int_equal(sparse_sum(from, SIZE, sum), 0);
	assert_string_equal(sum, copied);
	assert_int_equal(sparse_sum(to, SIZE, sum), 0);
	assert_string_equal(sum, copied);
	close(from);
	close(to);
	free(before);
	free(after);
}

static void cut_short(void **state)
{
	const int from = file(0), to = file(0);
	char sum[DIGEST_HEX], empty[DIGEST_HEX];

	(void)state;
	assert_int_equal(sparse_sum(from, 0, empty), 0);
	put(from, "data", 4, SPARSE_PAGE);
	assert_int_equal(sparse_copy(from, to, 2 * (off_t)SPARSE_PAGE, sum), -EBADMSG);
	assert_int_equal(sparse_sum(from, 2 * (off_t)SPARSE_PAGE, sum), -EBADMSG);
	/* Nothing but a hole, of whatever size, is as good as nothing. */
	assert_int_equal(ftruncate(from, 0), 0);
	assert_int_equal(ftruncate(from, 3 << 20), 0);
	assert_int_equal(sparse_copy(from, to, 3 << 20, sum), 0);
	assert_string_equal(sum, empty);
	assert_int_equal(sparse_sum(-1, 5, sum), -EBADF);
	assert_int_equal(sparse_copy(from, -1, 3 << 20, sum), -EBADF);
	close(from);
	close(to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zeroes),
		cmocka_unit_test(holes),
		cmocka_unit_test(copies),
		cmocka_unit_test(cut_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
