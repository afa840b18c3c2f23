/* SPDX-License-Identifier: Apache-2.0 */
/* The mountpoint: cleans up after an earlier instance, and claims this instance's runtime directory. */
#ifndef XSBX_FS_MOUNTPOINT_H
#define XSBX_FS_MOUNTPOINT_H

#include <stdbool.h>
#include <stddef.h>

/**
 * mountpoint_prepare() - Make sure that the mountpoint is usable
 * @path: Mountpoint
 * @ret_why: On failure, a message
 * @why_size: Size of @ret_why
 *
 * Detaches the dead mount of a killed instance.
 *
 * Return: 0 or -errno.
 */
int mountpoint_prepare(const char *path, char *ret_why, size_t why_size);

/* A file or directory that the daemon uses while mounted. */
struct mountpoint_use {
	const char *what; /* for the message: "the agent" */
	const char *path; /* NULL and names without a slash are ignored */
	bool inside;	  /* a directory: nothing may be mounted inside it either */
};

/**
 * mountpoint_check() - Refuse to hide files that the daemon needs
 * @path: Mountpoint, absolute and without links
 * @uses: Files that are needed
 * @n: Number of files
 * @ret_why: On failure, a message
 * @why_size: Size of @ret_why
 *
 * To open a file below the mount, the daemon would send a request to itself and wait for its own
 * answer, forever.
 *
 * Return: 0 or -EBUSY.
 */
int mountpoint_check(const char *path, const struct mountpoint_use *uses, size_t n, char *ret_why,
		     size_t why_size);

/**
 * mountpoint_claim() - Make and lock the runtime directory that belongs to a mountpoint
 * @parent: Parent of all runtime directories; made if necessary
 * @path: Mountpoint
 * @ending_ms: How long another one is waited for that is unmounted, or see mountpoint_ends(), and has not ended
 * @ret_dir: Result, to be freed
 * @ret_lock: Descriptor that holds the lock, above the standard ones; who outlives the caller may keep a copy
 * @ret_why: On failure, a message
 * @why_size: Size of @ret_why
 *
 * Return: 0, -EBUSY (another instance has it), -errno.
 */
int mountpoint_claim(const char *parent, const char *path, unsigned ending_ms, char **ret_dir,
		     int *ret_lock, char *ret_why, size_t why_size);

/* The mount whose runtime directory is @dir, and which has its lock, is ending: who claims it next need only wait. */
void mountpoint_ends(const char *dir);

/* The name of that directory; NULL if out of memory. Nothing is looked at. */
char *mountpoint_directory(const char *parent, const char *path);

#endif
