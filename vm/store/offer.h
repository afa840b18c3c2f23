/* SPDX-License-Identifier: Apache-2.0 */
/* An object of this machine that is to be put into the store or a bundle. */
#ifndef XSBX_VM_STORE_OFFER_H
#define XSBX_VM_STORE_OFFER_H

#include "manifest.h"

/*
 * - `m` is complete when offer_next() has returned 0.
 * - `packed`, `stored` and `sha256` are those of the chunk that offer_next() came to last.
 */
struct offer {
	struct manifest m;
	int files[MANIFEST_FILES_MAX];
	size_t file; /* where offer_next() is */
	off_t at;
	struct digest *sum;
	char *block, *packed;
	size_t stored;
	char sha256[DIGEST_HEX];
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

/* The next chunk. Return: 1, 0 if there is none any more, or -errno. */
int offer_next(struct offer *o);

/* Chunks it has at most. */
size_t offer_chunks(const struct offer *o);

void offer_close(struct offer *o);

#endif
