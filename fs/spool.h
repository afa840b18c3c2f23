/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that only grow: small ones in memory, more in an unnamed file on disk. */
#ifndef XSBX_SPOOL_H
#define XSBX_SPOOL_H

#include <stdint.h>
#include <sys/types.h>

#include "../vm/buf.h"

#define SPOOL_MEMORY (16u << 10) /* bytes kept in memory before a file is made */

/*
 * - Bytes [0, len) can be read; they never change.
 * - While fd < 0 they are in `mem`, afterwards in the file, and `mem` is empty.
 * - After a failed append, err holds its -errno and nothing is taken any more.
 */
struct spool {
	struct buf mem;
	int fd;
	int err;
	uint64_t len;
};

void spool_init(struct spool *sp);
void spool_fini(struct spool *sp);

/**
 * spool_append() - Add bytes
 * @sp: Spool
 * @dirfd: Directory for the unnamed file, should one be needed
 * @data: Bytes
 * @len: How many
 *
 * Return: 0 or -errno (-ENOSPC ...); what was there before stays readable.
 */
int spool_append(struct spool *sp, int dirfd, const void *data, size_t len);

/* Makes empty @dst a copy of @src. Return: 0 or -errno. */
int spool_copy(struct spool *dst, const struct spool *src, int dirfd);

/* Return: bytes read at @offset, 0 at the end, or -errno. */
ssize_t spool_read(const struct spool *sp, uint64_t offset, void *data, size_t len);

#endif
