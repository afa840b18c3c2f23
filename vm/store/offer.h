/* SPDX-License-Identifier: Apache-2.0 */
/* An object of this machine that is to be put into the store or a bundle. */
#ifndef XSBX_VM_STORE_OFFER_H
#define XSBX_VM_STORE_OFFER_H

#include "manifest.h"

/*
 * - `m` is complete when offer_next() has returned 0; its last chunk is the one that offer_next() came to
 *   last, and `packed` what is stored of it.
 */
struct offer {
	struct manifest m;
	int files[MANIFEST_FILES_MAX];
	size_t file; /* where offer_next() is */
	off_t at;
	struct digest *sum;
	char *block, *packed;
};

/**
 * offer_open() - Look at an object
 * @dir: Directory that has it
 * @kind: What it is
 * @key: Its name there
 * @chunk_bytes: Size of chunks
 * @ret_o: Result; to be freed by offer_close()
 *
 * Return: 0, -EINVAL if there is anything but plain files, or -errno.
 */
int offer_open(const char *dir, enum store_kind kind, const char *key, uint32_t chunk_bytes,
	       struct offer *ret_o);

/* Return: 1, 0 if there is none any more, or -errno. */
int offer_next(struct offer *o);

static inline const struct manifest_chunk *offer_chunk(const struct offer *o)
{
	return &o->m.chunks[o->m.nchunks - 1];
}

/* Chunks it has at most. */
size_t offer_chunks(const struct offer *o);

void offer_close(struct offer *o);

#endif
