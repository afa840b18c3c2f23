/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte buffer with a limit. */
#ifndef XSBX_VM_BASE_BUF_H
#define XSBX_VM_BASE_BUF_H

#include <stddef.h>

#include "util.h"

/*
 * - `data` may be NULL only while `cap` is 0.
 * - 0 <= len <= cap, and len <= limit unless limit is 0 (no limit).
 * - A buffer of all zeroes is empty, valid, and without a limit.
 * - A failed append leaves the contents as they were, and its error in `failed`, for callers that
 *   add many pieces and look once.
 */
struct buf {
	char *data;
	size_t len, cap, limit;
	int failed; /* the first error of buf_append() or buf_printf(), or 0 */
};

/* Return: 0, -EFBIG past the limit, -ENOMEM. */
int buf_append(struct buf *b, const void *data, size_t len);
int buf_printf(struct buf *b, const char *fmt, ...) printf_like(2, 3);

/* Makes room for @len more bytes after the contents. Return as above. */
int buf_reserve(struct buf *b, size_t len);

/* Writes at any offset; a gap is filled with zeroes. Return as above. */
int buf_write_at(struct buf *b, size_t offset, const void *data, size_t len);

/* Shortens the contents, or extends them with zeroes. Return as above. */
int buf_truncate(struct buf *b, size_t len);

/* Appends the contents of a regular file. Return as above, -EINVAL if it is not a regular file, or
 * -errno. */
int buf_load(struct buf *b, const char *path);

/* The contents as a terminated string, "" if empty; NULL if out of memory. Owned by the buffer. */
const char *buf_str(struct buf *b);

/* Frees the contents, forgets `failed`, and keeps the limit. */
void buf_clear(struct buf *b);

#endif
