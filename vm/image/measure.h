/* SPDX-License-Identifier: Apache-2.0 */
/* What directories take on the disk, also while somebody changes them. */
#ifndef XSBX_VM_IMAGE_MEASURE_H
#define XSBX_VM_IMAGE_MEASURE_H

#include <stdint.h>

/* A sum; zeroed but for `most` by who begins. */
struct measure {
	uint64_t
		bytes; /* each name of a file counts for its share, also if the others are elsewhere */
	unsigned files; /* whatever has a name */
	unsigned most;	/* stop after so many; 0: never */
};

/**
 * measure_tree() - Add what a file or a directory takes
 * @m: Sum
 * @path: Where it is. Links in it are not followed, and what is mounted in it is not part of it
 *
 * What vanishes meanwhile does not count, and is no error.
 *
 * Return: 0, -E2BIG if there is more than `most`, or it is nested deeper than anybody needs, or -errno
 * if it could not be looked at; the sum is then of a part: with -EACCES, of all but what is in
 * directories that may not be read.
 */
int measure_tree(struct measure *m, const char *path);

#endif
