/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock: what a process and its children may do with files, as a second layer. */
#ifndef XSBX_VM_BASE_LANDLOCK_H
#define XSBX_VM_BASE_LANDLOCK_H

#include <stdbool.h>
#include <stddef.h>

/* Where more than reading and running is allowed. Device files can be made nowhere. */
struct landlock_rule {
	const char *path; /* left out if it does not exist */
	bool tree;	  /* make, write, remove; else only write to what is there */
	bool read;	  /* no more than that: for what does not lie below the root */
};

#define LANDLOCK_READ_ALL 0x01u /* whatever lies below the root may be read and run */
#define LANDLOCK_SCOPED	  0x02u /* no signals or abstract sockets out of here, where the kernel can */

/** landlock_abi() - What the kernel has. Return: version from 1, or -errno if it has none. */
int landlock_abi(void);

/**
 * landlock_confine() - Restrict this thread for ever
 * @rules: Exceptions
 * @n: How many
 * @flags: LANDLOCK_*
 *
 * Needs no_new_privs. Nothing can be mounted afterwards. ABI 1 does not count as Landlock: it would
 * forbid to move files from one directory to another.
 *
 * Return: The ABI, 0 if the kernel has none that can be used, or -errno.
 */
int landlock_confine(const struct landlock_rule *rules, size_t n, unsigned flags);

#endif
