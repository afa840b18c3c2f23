/* SPDX-License-Identifier: Apache-2.0 */
/* Files with holes: read, written and summed up without filling them. */
#ifndef XSBX_VM_BASE_SPARSE_H
#define XSBX_VM_BASE_SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "digest.h"

#define SPARSE_PAGE 4096u

bool sparse_is_zero(const char *p, size_t len);

/* The first place from @at on that is no hole; @size if there is none. Return: it or -errno. */
off_t sparse_next(int fd, off_t at, off_t size);

/* Writes what is not zero, by pages; @at is a multiple of SPARSE_PAGE. Return: 0 or -errno. */
int sparse_write(int fd, const void *buf, size_t len, off_t at);

/* Adds the pages of a piece that are not zero, each with its place; @at as above. The checksum of a
 * file is that of all of them, in order: the same with holes and without. */
void sparse_add(struct digest *d, const void *buf, size_t len, off_t at);

/* The checksum of a file. Return: 0 or -errno. */
int sparse_sum(int fd, off_t size, char ret_sha256[DIGEST_HEX]);

/* Copies @size bytes into the empty file @to, leaving holes; the checksum is of the very bytes that were
 * copied. Return: 0, -EBADMSG if @from is shorter, or -errno. */
int sparse_copy(int from, int to, off_t size, char ret_sha256[DIGEST_HEX]);

#endif
