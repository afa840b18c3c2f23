/* SPDX-License-Identifier: Apache-2.0 */
/* Append-only output: small amounts in memory, more in the depot's blocks. */
#ifndef XSBX_FS_SESSION_SPOOL_H
#define XSBX_FS_SESSION_SPOOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "depot.h"

#define SPOOL_MEMORY  (16u << 10) /* bytes that always stay in memory */
#define SPOOL_WAITING (2u << 20)  /* bytes of one spool that may wait for the disk */
#define DEPOT_WAITING (64u << 20) /* the same for all spools together */

/*
 * - Bytes [0, len) can be read; they never change.
 * - block[i] starts at offset i * DEPOT_BLOCK; all blocks but the last are full.
 * - Once something could not be kept, `err` says why (-errno), `lost` counts the bytes, and no more are
 *   accepted: there is one gap, at the end.
 * - While it is `away`, it has `len` bytes, and none of them here: they are in a file of what is
 *   kept (fs/keep/), and are brought back when somebody reads them. Nothing is added to such a one.
 * - Zeroed memory is an empty spool.
 */
struct spool {
	struct block **block;
	uint32_t nblocks, cap;
	uint64_t len, lost;
	int err;
	bool away;
	bool kept; /* these bytes are in such a file as well */
	/* In records: its id, how many of the first blocks it shares with another of the run, and
	 * how many are written, and will not change but by being stored. */
	uint64_t id;
	uint32_t nshared, nput;
};

void spool_fini(struct spool *sp, struct depot *d);

/**
 * spool_append() - Add bytes
 * @sp: Spool
 * @d: Depot
 * @data: Bytes
 * @len: How many
 *
 * Bytes that can't be written yet are kept in memory, up to the limits above; beyond them they are
 * lost if writing fails, but still accepted if the disk is only slow: see spool_is_behind().
 */
void spool_append(struct spool *sp, struct depot *d, const void *data, size_t len);

/* The spool is complete. */
void spool_seal(struct spool *sp, struct depot *d);

/* Adds a block, whose reference it takes. Return: 0; -EBADMSG where the last one is not full;
 * -ENOMEM; it is the caller's then. */
int spool_put(struct spool *sp, struct block *b);

/* Counts the next bytes as lost. */
void spool_lose(struct spool *sp, int err, uint64_t len);

/* Makes the empty @dst a copy of @src that shares its blocks. */
void spool_copy(struct spool *dst, const struct spool *src);

/* Should the producer wait until the disk has caught up? */
bool spool_is_behind(const struct spool *sp, const struct depot *d);

/* The size to show: including lost bytes, so that no reader takes the rest for all of it. */
uint64_t spool_size(const struct spool *sp);

/* The block with the byte at @offset, which must exist. @ret_at: offset in the block. */
struct block *spool_block(const struct spool *sp, uint64_t offset, uint32_t *ret_at);

/* Return: bytes read at @offset, as many as exist and fit; 0 at the end, -EIO where bytes were lost,
 * -EAGAIN if it would block on the disk, or -errno. */
ssize_t spool_read(const struct spool *sp, const struct depot *d, uint64_t offset, void *data,
		   size_t len);

#endif
