/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by overlay_diff.c and overlay_commit.c. */
#ifndef XSBX_VM_TASK_OVERLAY_INTERNAL_H
#define XSBX_VM_TASK_OVERLAY_INTERNAL_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "vm/base/digest.h"

#define OVERLAY_DEPTH_MAX 100u /* nested directories; each takes descriptors */
#define OVERLAY_MODE	  0777 /* mode bits that are committed: no set-id or sticky bits */

/* An entry in a directory of the changes and in that of the host. */
struct overlay_entry {
	int upper, base; /* directories; base is -1 if it does not exist */
	const char *name;
	struct stat u, b; /* of the entry in each */
	bool there;	  /* it exists in the base; only then `b` is valid */
};

/* Checksum of an entry's result: 16 bytes of a SHA-256, in hexadecimal. */
#define OVERLAY_SUM 33 /* characters, with the terminator */

/* Opens a file below @dir, if it has @type and is on the same file system. Return: descriptor or
 * -errno. */
int overlay_open(int dir, const char *name, mode_t type, int flags);

/* Finishes a sum. Return: whether it equals @want. */
int overlay_sum_end(struct digest *d, char ret_sum[OVERLAY_SUM]);

/* Adds the contents of the file @in: data with offsets, and its size. Return: 0 or -errno. */
int overlay_sum_file(int in, off_t size, struct digest *d);

/* Does a change need review: is it a file name that host programs act on, or did it have set-id
 * bits? */
bool overlay_mark(const char *path, mode_t mode);

/*
 * Applies the change of @e->name to the base, but only if the result has the sum @want, computed on
 * top of @d.
 * Return: 0, -ESTALE if the sum differs, or -errno.
 */
int overlay_commit_file(const struct overlay_entry *e, struct digest *d, const char *want);
int overlay_commit_link(const struct overlay_entry *e, const char *raw, unsigned depth);
/* Return: the new or old directory in the base, or -errno. */
int overlay_commit_dir(const struct overlay_entry *e);

/* Removes @name recursively. Return: 0 or -errno. */
int overlay_remove(int dir, const char *name, unsigned depth);

/* Checks a link's target, or -ENOTSUP: it may only point below the directory. @depth is that of the
 * link. */
int overlay_link_target(const char *target, unsigned depth, char ret_target[PATH_MAX]);

/* Reads the link @name of @dir. Return: 0 or -errno. */
int overlay_read_link(int dir, const char *name, char ret_target[PATH_MAX]);

#endif
