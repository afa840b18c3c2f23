/* SPDX-License-Identifier: Apache-2.0 */
/* A cache of SHA-256 digests of large files that rarely change. */
#ifndef XSBX_VM_IMAGE_DIGEST_CACHE_H
#define XSBX_VM_IMAGE_DIGEST_CACHE_H

#include "vm/base/digest.h"
#include "vm/base/io.h"

struct digest_known {
	struct fileio_identity id;
	char hex[DIGEST_HEX];
};

#define DIGEST_CACHE_MAX 160 /* two for each possible template, and kernels */

/* Most recently used first. Plain data: it may be copied. */
struct digest_cache {
	struct digest_known known[DIGEST_CACHE_MAX];
	unsigned n;
};

/**
 * digest_cache_load() - Load what earlier processes have saved
 * @c: Filled in; empty if there is nothing that can be trusted
 * @dir: Cache directory
 */
void digest_cache_load(struct digest_cache *c, const char *dir);

/**
 * digest_cache_load_shared() - Likewise of what root has saved for all
 * @c: Filled in; empty if there is nothing that can be trusted
 * @dir: The shared cache directory
 * @id: The file that was read last, or zeroed; then the one that was read now
 *
 * Return: false if it was read before, and @c was left as it is.
 */
bool digest_cache_load_shared(struct digest_cache *c, const char *dir, struct fileio_identity *id);

/**
 * digest_cache_find() - Look up the digest of an open file
 * @c: Cache
 * @fd: The file
 * @ret_hex: SHA-256 of its bytes
 *
 * Return: 0, -EAGAIN if it has to be computed, or -errno.
 */
int digest_cache_find(struct digest_cache *c, int fd, char ret_hex[DIGEST_HEX]);

/* Adds one, replacing the least recently used if the cache is full. */
void digest_cache_add(struct digest_cache *c, const struct digest_known *k);

/* The next two may take seconds; call them in worker threads. */

/**
 * digest_cache_compute() - Compute the digest of a file
 * @fd: The file
 * @stop: Set by another thread to cancel
 * @ret_known: Result
 *
 * Return: 0, -ECANCELED, -EAGAIN if the file was changed in the meantime, or -errno.
 */
int digest_cache_compute(int fd, const int *stop, struct digest_known *ret_known);

/**
 * digest_cache_keep() - Save one for later processes, keeping those saved by others
 * @dir: Cache directory
 * @k: What to save
 * @publish: For all to read
 *
 * Return: 0 or -errno.
 */
int digest_cache_keep(const char *dir, const struct digest_known *k, bool publish);

#endif
