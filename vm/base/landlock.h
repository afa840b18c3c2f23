/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock: limits what a process and its children may do with files, as a second layer. */
#ifndef XSBX_VM_BASE_LANDLOCK_H
#define XSBX_VM_BASE_LANDLOCK_H

#include <stdbool.h>
#include <stddef.h>

/* An exception for one path. Device files can't be created anywhere. */
struct landlock_rule {
	const char *path; /* ignored if it does not exist */
	bool tree;	  /* create, write, remove; else only write to existing files */
	bool read;	  /* read only: for paths that are not below the root */
};

#define LANDLOCK_READ_ALL 0x01u /* everything below the root may be read and executed */
#define LANDLOCK_SCOPED	  0x02u /* no signals or abstract sockets to the outside, if supported */

/** landlock_abi() - The kernel's Landlock version. Return: 1 or higher, or -errno if it has none. */
int landlock_abi(void);

/**
 * landlock_make() - Make a set of rules, for landlock_enter()
 * @rules: Exceptions
 * @n: How many
 * @flags: LANDLOCK_*
 *
 * The paths are those of now, whatever has their names later. ABI 1 is not used: it forbids moving
 * files from one directory to another.
 *
 * Return: a descriptor, -EOPNOTSUPP if the kernel has no usable Landlock, or -errno.
 */
int landlock_make(const struct landlock_rule *rules, size_t n, unsigned flags);

/* Restricts this thread for good by such a set. Needs no_new_privs. Nothing can be mounted
 * afterwards. Return: 0, or -1 with errno. */
int landlock_enter(int ruleset);

/**
 * landlock_confine() - Restrict this thread for good
 * @rules: Exceptions
 * @n: How many
 * @flags: LANDLOCK_*
 *
 * Both at once.
 *
 * Return: the ABI version, 0 if the kernel has no usable one, or -errno.
 */
int landlock_confine(const struct landlock_rule *rules, size_t n, unsigned flags);

#endif
