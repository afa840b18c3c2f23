/* SPDX-License-Identifier: Apache-2.0 */
/* Inode numbers as the host is told them. See number.h. */
#include "number.h"

#include "vm/base/util.h"

/* The lower part of a number is that of the file system, the upper part its generation. */
#define OWN_BITS 32u

/* What is unpacked is of one file system. */
#define DEV	 0

uint64_t number_of(const struct numbers *ns, ino_t own)
{
	const uint64_t shown = inodes_get(&ns->shown, DEV, own),
		       folded = ((uint64_t)own ^ (uint64_t)own >> OWN_BITS) & UINT32_MAX;

	if (shown)
		return shown;
	return ns->generation ? ns->generation << OWN_BITS | folded : own;
}

/* There is none behind the last one, which a host that knows better would not have told. */
static uint64_t after(uint64_t generation)
{
	return MIN(generation, (uint64_t)UINT32_MAX - 1) + 1;
}

int number_set(struct numbers *ns, ino_t own, uint64_t shown)
{
	const uint64_t next = after(shown >> OWN_BITS);
	const int r = inodes_set(&ns->shown, DEV, own, shown);

	if (r == 0)
		ns->generation = MAX(ns->generation, next);
	return r;
}

void numbers_clear(struct numbers *ns)
{
	inodes_clear(&ns->shown);
	ns->generation = after(ns->generation);
}
