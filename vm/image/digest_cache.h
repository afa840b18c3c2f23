/* SPDX-License-Identifier: Apache-2.0 */
/* What is in large files that rarely change: SHA-256 worked out once, and remembered. */
#ifndef XSBX_VM_IMAGE_DIGEST_CACHE_H
#define XSBX_VM_IMAGE_DIGEST_CACHE_H

#include "vm/base/digest.h"
#include "vm/base/io.h"

struct digest_known {
	struct fileio_identity id;
	char hex[DIGEST_HEX];
};

#define DIGEST_CACHE_MAX 160 /* two of each template that there may be, and kernels */

/* Those used last come first. Plain data: it may be copied. */
struct digest_cache {
	struct digest_known known[DIGEST_CACHE_MAX];
	unsigned n;
};

/**
 * digest_cache_load() - Take what an earlier process has written down
 * @c: Filled in; empty if there is nothing, or nothing that can be trusted
 * @dir: Cache directory
 */
void digest_cache_load(struct digest_cache *c, const char *dir);

/**
 * digest_cache_find() - What is in an open file, if that is known
 * @c: Memory
 * @fd: The file
 * @ret_hex: SHA-256 of its bytes
 *
 * Return: 0, -EAGAIN if it has to be worked out, or -errno.
 */
int digest_cache_find(struct digest_cache *c, int fd, char ret_hex[DIGEST_HEX]);

/* Remembers one, and forgets the one that was not used for longest. */
void digest_cache_add(struct digest_cache *c, const struct digest_known *k);

/* The next two may take seconds, and are for worker threads. */

/**
 * digest_cache_compute() - Read a file from end to end
 * @fd: The file
 * @stop: Set by another thread if the answer is not wanted any more
 * @ret_known: Result
 *
 * Return: 0, -ECANCELED, -EAGAIN if the file was changed in the meantime, or -errno.
 */
int digest_cache_compute(int fd, const int *stop, struct digest_known *ret_known);

/**
 * digest_cache_keep() - Write one down for later processes, beside what others have written
 * @dir: Cache directory
 * @k: What is known now
 *
 * Return: 0 or -errno.
 */
int digest_cache_keep(const char *dir, const struct digest_known *k);

#endif
