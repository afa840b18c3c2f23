/* SPDX-License-Identifier: Apache-2.0 */
/* The place where the mount goes: what an earlier instance left there, and this instance's own directory. */
#ifndef XSBX_FS_MOUNTPOINT_H
#define XSBX_FS_MOUNTPOINT_H

#include <stdbool.h>
#include <stddef.h>

/**
 * mountpoint_prepare() - Make sure that something can be mounted
 * @path: Mountpoint
 * @ret_why: In words, if it fails
 * @why_size: Bytes at @ret_why
 *
 * Detaches the dead mount of an instance that was killed.
 *
 * Return: 0 or -errno.
 */
int mountpoint_prepare(const char *path, char *ret_why, size_t why_size);

/* A file or directory that is used while the mount is there. */
struct mountpoint_use {
	const char *what; /* for the message: "the agent" */
	const char *path; /* NULL and names without a slash are passed over */
	bool inside;	  /* a directory: nothing may be mounted inside it either */
};

/**
 * mountpoint_check() - Refuse to be mounted over what is needed
 * @path: Mountpoint, absolute and without links
 * @uses: What is needed
 * @n: How many
 * @ret_why: In words, if it fails
 * @why_size: Bytes at @ret_why
 *
 * A program that lies below the mount would be looked for through the mount, by those who serve it: they
 * would wait for themselves, for ever.
 *
 * Return: 0 or -EBUSY.
 */
int mountpoint_check(const char *path, const struct mountpoint_use *uses, size_t n, char *ret_why,
		     size_t why_size);

/**
 * mountpoint_claim() - Make and lock the runtime directory that belongs to a mountpoint
 * @parent: Parent of all runtime directories; made if need be
 * @path: Mountpoint
 * @ret_dir: Result, to be freed
 * @ret_lock: Descriptor that holds the lock; children that may outlive the daemon inherit it
 * @ret_why: In words, if it fails
 * @why_size: Bytes at @ret_why
 *
 * Return: 0, -EBUSY (another instance has it), -errno.
 */
int mountpoint_claim(const char *parent, const char *path, char **ret_dir, int *ret_lock,
		     char *ret_why, size_t why_size);

#endif
