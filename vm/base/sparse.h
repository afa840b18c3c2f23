/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse files: read, written and hashed without filling their holes. */
#ifndef XSBX_VM_BASE_SPARSE_H
#define XSBX_VM_BASE_SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "digest.h"

#define SPARSE_PAGE 4096u

bool sparse_is_zero(const char *p, size_t len);

/* The first offset from @at on that is not in a hole; @size if there is none. Return: the offset or -errno. */
off_t sparse_next(int fd, off_t at, off_t size);

/* Writes only the pages that are not zero; @at is a multiple of SPARSE_PAGE. Return: 0 or -errno. */
int sparse_write(int fd, const void *buf, size_t len, off_t at);

/* Adds those pages of @buf that are not zero to a digest, each with its offset; @at as above. The checksum of
 * a file covers these pages in order, so it does not depend on where its holes are. */
void sparse_add(struct digest *d, const void *buf, size_t len, off_t at);

/* The checksum of a file. Return: 0 or -errno. */
int sparse_sum(int fd, off_t size, char ret_sha256[DIGEST_HEX]);

/* Copies @size bytes into the empty file @to, keeping holes; the checksum is of the bytes as copied.
 * Return: 0, -EBADMSG if @from is shorter, or -errno. */
int sparse_copy(int from, int to, off_t size, char ret_sha256[DIGEST_HEX]);

#endif
