/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte buffer with a limit. */
#include "buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

int buf_reserve(struct buf *b, size_t len)
{
	size_t need, cap;
	char *data;

	if (len > SIZE_MAX / 4 - b->len)
		return -EFBIG;
	need = b->len + len;
	if (b->limit && need > b->limit)
		return -EFBIG;
	if (need <= b->cap)
		return 0;
	cap = MAX(b->cap * 2, MAX(need, (size_t)64));
	if (b->limit)
		cap = MIN(cap, b->limit);
	data = realloc(b->data, cap);
	if (!data)
		return -ENOMEM;
	b->data = data;
	b->cap = cap;
	return 0;
}

static int keep_error(struct buf *b, int r)
{
	if (b->failed == 0)
		b->failed = r;
	return r;
}

int buf_append(struct buf *b, const void *data, size_t len)
{
	int r;

	if (len == 0)
		return 0;
	r = buf_reserve(b, len);
	if (r < 0)
		return keep_error(b, r);
	memcpy(b->data + b->len, data, len);
	b->len += len;
	return 0;
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
	char small[512];
	_cleanup_free_ char *big = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(small, sizeof(small), fmt, ap);
	va_end(ap);
	if (n < 0)
		return -EINVAL;
	if ((size_t)n < sizeof(small))
		return buf_append(b, small, (size_t)n);

	va_start(ap, fmt);
	n = vasprintf(&big, fmt, ap);
	va_end(ap);
	if (n < 0) {
		big = NULL;
		return keep_error(b, -ENOMEM);
	}
	return buf_append(b, big, (size_t)n);
}

int buf_truncate(struct buf *b, size_t len)
{
	int r;

	if (len > b->len) {
		r = buf_reserve(b, len - b->len);
		if (r < 0)
			return r;
		memset(b->data + b->len, 0, len - b->len);
	}
	b->len = len;
	return 0;
}

int buf_write_at(struct buf *b, size_t offset, const void *data, size_t len)
{
	int r;

	if (len == 0)
		return 0;
	if (offset > SIZE_MAX / 4 || len > SIZE_MAX / 4)
		return -EFBIG;
	if (offset + len > b->len) {
		if (b->limit && offset + len > b->limit)
			return -EFBIG;
		r = buf_truncate(b, offset + len);
		if (r < 0)
			return r;
	}
	memcpy(b->data + offset, data, len);
	return 0;
}

int buf_load(struct buf *b, const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	ssize_t n;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	r = buf_reserve(b, (size_t)st.st_size);
	if (r < 0)
		return r;
	while ((n = read(fd, b->data + b->len, b->cap - b->len)) > 0)
		b->len += (size_t)n;
	return n < 0 ? -errno : 0;
}

const char *buf_str(struct buf *b)
{
	if (b->len == b->cap) {
		char *data = realloc(b->data, b->cap + 1);

		if (!data)
			return NULL;
		b->data = data;
		b->cap++;
	}
	b->data[b->len] = '\0';
	return b->data;
}

void buf_clear(struct buf *b)
{
	free(b->data);
	b->data = NULL;
	b->len = b->cap = 0;
	b->failed = 0;
}
