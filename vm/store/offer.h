/* SPDX-License-Identifier: Apache-2.0 */
/* A local object that is to be put into the store or a bundle. */
#ifndef XSBX_VM_STORE_OFFER_H
#define XSBX_VM_STORE_OFFER_H

#include "manifest.h"

/*
 * - `m` is complete when offer_next() has returned 0; its last chunk is the one that offer_next() has
 *   read last, and `packed` has its compressed bytes.
 */
struct offer {
	struct manifest m;
	int files[MANIFEST_FILES_MAX];
	size_t file; /* position of offer_next() */
	off_t at;
	struct digest *sum;
	char *block, *packed;
};

/**
 * offer_open() - Open an object for reading
 * @dir: Directory that contains it
 * @kind: Kind of the object
 * @key: Its name there
 * @chunk_bytes: Chunk size
 * @ret_o: Result; free it with offer_close()
 *
 * Return: 0, -EINVAL if it contains anything but regular files, or -errno.
 */
int offer_open(const char *dir, enum store_kind kind, const char *key, uint32_t chunk_bytes,
	       struct offer *ret_o);

/* Reads the next chunk. Return: 1, 0 after the last one, or -errno. */
int offer_next(struct offer *o);

static inline const struct manifest_chunk *offer_chunk(const struct offer *o)
{
	return &o->m.chunks[o->m.nchunks - 1];
}

/* Upper bound of its number of chunks. */
size_t offer_chunks(const struct offer *o);

void offer_close(struct offer *o);

#endif
