/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that only grow: small ones in memory, more in the depot's blocks. */
#ifndef XSBX_FS_SESSION_SPOOL_H
#define XSBX_FS_SESSION_SPOOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "depot.h"

#define SPOOL_MEMORY  (16u << 10) /* bytes that stay in memory for good */
#define SPOOL_WAITING (2u << 20)  /* bytes of one spool that may wait for the disk ... */
#define DEPOT_WAITING (64u << 20) /* ... and of all */

/*
 * - Bytes [0, len) can be read; they never change.
 * - block[i] has those from i * DEPOT_BLOCK on; all blocks but the last are full.
 * - Once something could not be kept, `err` says why (-errno), `lost` counts it, and nothing is taken any
 *   more: there is one hole, at the end.
 * - Zeroed memory is an empty spool.
 */
struct spool {
	struct block **block;
	uint32_t nblocks, cap;
	uint64_t len, lost;
	int err;
};

void spool_fini(struct spool *sp, struct depot *d);

/**
 * spool_append() - Add bytes
 * @sp: Spool
 * @d: Depot
 * @data: Bytes
 * @len: How many
 *
 * What can't be written for now is kept in memory, up to the limits above; past them it is lost if writing
 * fails, but taken all the same if the disk is only slow: see spool_is_behind().
 */
void spool_append(struct spool *sp, struct depot *d, const void *data, size_t len);

/* No more bytes come. */
void spool_seal(struct spool *sp, struct depot *d);

/* Counts bytes as lost that were to come next. */
void spool_lose(struct spool *sp, int err, uint64_t len);

/* Makes empty @dst a copy of @src, which shares its blocks. */
void spool_copy(struct spool *dst, const struct spool *src);

/* Should whoever fills it wait until the disk has caught up? */
bool spool_is_behind(const struct spool *sp, const struct depot *d);

/* Its size as it is shown: with what was lost, so that no reader takes the rest for all of it. */
uint64_t spool_size(const struct spool *sp);

/* The block that holds the byte at @offset, which is there. @ret_at: where in it. */
struct block *spool_block(const struct spool *sp, uint64_t offset, uint32_t *ret_at);

/* Return: bytes read at @offset, as many as there are and fit; 0 at the end, -EIO where something was lost,
 * -EAGAIN if a disk would have to be waited for, or -errno. */
ssize_t spool_read(const struct spool *sp, const struct depot *d, uint64_t offset, void *data,
		   size_t len);

#endif
