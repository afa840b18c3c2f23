/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the disk usage of directories, even while they are being changed. */
#ifndef XSBX_VM_IMAGE_MEASURE_H
#define XSBX_VM_IMAGE_MEASURE_H

#include <stdint.h>

/* A sum; initialized to zero, except `most`. */
struct measure {
	/* A file with n links counts 1/n for each of them, even if others are elsewhere. */
	uint64_t bytes;
	unsigned files; /* directory entries of any type */
	unsigned most;	/* stop after that many; 0: never */
};

/**
 * measure_tree() - Add the size of a file or a directory
 * @m: Sum
 * @path: Its path. Links in it are not followed, and other file systems mounted in it are skipped
 *
 * Files that are removed in the meantime are ignored.
 *
 * Return: 0, -E2BIG if there are more than `most` files, or it is nested too deep, or -errno if
 * something could not be read; the sum is then partial: with -EACCES, only the content of unreadable
 * directories is missing.
 */
int measure_tree(struct measure *m, const char *path);

#endif
