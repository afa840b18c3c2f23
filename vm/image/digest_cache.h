/* SPDX-License-Identifier: Apache-2.0 */
/* What is in large files that rarely change: SHA-256 worked out once, and remembered. */
#ifndef XSBX_VM_IMAGE_DIGEST_CACHE_H
#define XSBX_VM_IMAGE_DIGEST_CACHE_H

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "vm/base/digest.h"

/* Which file it is, and whether it was changed: nobody can set the time of change. */
struct contents_identity {
	uint64_t dev, ino, size;
	struct timespec mtime, ctime;
};

struct contents_known {
	struct contents_identity id;
	char hex[DIGEST_HEX];
};

#define CONTENTS_MAX 160 /* two of each template that there may be, and kernels */

/* Those used last come first. Plain data: it may be copied. */
struct contents {
	struct contents_known known[CONTENTS_MAX];
	unsigned n;
};

/**
 * contents_load() - Take what an earlier process has written down
 * @c: Filled in; empty if there is nothing, or nothing that can be trusted
 * @dir: Cache directory
 */
void contents_load(struct contents *c, const char *dir);

/**
 * contents_find() - What is in an open file, if that is known
 * @c: Memory
 * @fd: The file
 * @ret_hex: SHA-256 of its bytes
 *
 * Return: 0, -EAGAIN if it has to be worked out, or -errno.
 */
int contents_find(struct contents *c, int fd, char ret_hex[DIGEST_HEX]);

/* Remembers one, and forgets the one that was not used for longest. */
void contents_add(struct contents *c, const struct contents_known *k);

/* The next two may take seconds, and are for worker threads. */

/**
 * contents_work_out() - Read a file from end to end
 * @fd: The file
 * @stop: Set by another thread if the answer is not wanted any more
 * @ret_known: Result
 *
 * Return: 0, -ECANCELED, -EAGAIN if the file was changed in the meantime, or -errno.
 */
int contents_work_out(int fd, const int *stop, struct contents_known *ret_known);

/**
 * contents_keep() - Write one down for later processes, beside what others have written
 * @dir: Cache directory
 * @k: What is known now
 *
 * Return: 0 or -errno.
 */
int contents_keep(const char *dir, const struct contents_known *k);

#endif
