/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse files. */
#include "sparse.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "io.h"
#include "util.h"

#define BLOCK (256u << 10)

off_t sparse_next(int fd, off_t at, off_t size)
{
	const off_t data = lseek(fd, at, SEEK_DATA);

	if (data < 0 && errno == ENXIO)
		return size;
	if (data < 0 && errno == EINVAL)
		return at; /* a file system that knows no holes */
	return data < 0 ? -errno : MIN(data, size);
}

bool sparse_is_zero(const char *p, size_t len)
{
	return p[0] == 0 && memcmp(p, p + 1, len - 1) == 0;
}

int sparse_write(int fd, const void *buf, size_t len, off_t at)
{
	const char *p = buf;
	size_t first = 0;
	int r = 0;

	while (r == 0 && first < len) {
		size_t end = first;

		while (end < len && !sparse_is_zero(p + end, MIN(SPARSE_PAGE, len - end)))
			end += MIN(SPARSE_PAGE, len - end);
		if (end > first)
			r = fileio_write_at(fd, p + first, end - first, at + (off_t)first);
		first = MIN(end + SPARSE_PAGE, len); /* the page there is empty, or the end */
	}
	return r;
}

void sparse_add(struct digest *d, const void *buf, size_t len, off_t at)
{
	const char *p = buf;

	for (size_t page = 0; page < len; page += SPARSE_PAGE) {
		const uint64_t place[2] = {(uint64_t)at + page, MIN(SPARSE_PAGE, len - page)};

		if (sparse_is_zero(p + page, place[1]))
			continue;
		digest_add(d, place, sizeof(place));
		digest_add(d, p + page, place[1]);
	}
}

/* Adds up what is in @fd, and copies it to @to unless that is -1. */
static int walk(int fd, int to, off_t size, char ret_sha256[DIGEST_HEX])
{
	_cleanup_free_ char *block = malloc(BLOCK);
	struct digest *d = digest_new();
	int r = block && d ? 0 : -ENOMEM, r2;
	off_t at = 0;

	while (r == 0 && at < size) {
		size_t len;

		at = sparse_next(fd, at, size);
		if (at < 0 || at == size) {
			r = at < 0 ? (int)at : 0;
			break;
		}
		at &= ~(off_t)(SPARSE_PAGE - 1);
		len = (size_t)MIN((off_t)BLOCK, size - at);
		r = fileio_read_at(fd, block, len, at);
		if (r == 0)
			sparse_add(d, block, len, at);
		if (r == 0 && to >= 0)
			r = sparse_write(to, block, len, at);
		at += (off_t)len;
	}
	r2 = digest_end(d, ret_sha256);
	return r < 0 ? r : r2;
}

int sparse_sum(int fd, off_t size, char ret_sha256[DIGEST_HEX])
{
	return walk(fd, -1, size, ret_sha256);
}

int sparse_copy(int from, int to, off_t size, char ret_sha256[DIGEST_HEX])
{
	return ftruncate(to, size) < 0 ? -errno : walk(from, to, size, ret_sha256);
}
