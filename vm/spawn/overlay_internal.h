/* SPDX-License-Identifier: Apache-2.0 */
/* What overlay_diff.c and overlay_commit.c share. */
#ifndef XSBX_VM_SPAWN_OVERLAY_INTERNAL_H
#define XSBX_VM_SPAWN_OVERLAY_INTERNAL_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "vm/base/digest.h"

#define OVERLAY_DEPTH_MAX 100u /* directories in one another; each takes descriptors */
#define OVERLAY_MODE	  0777 /* what is taken over of a file's mode: no set-id bits, no sticky one */

/* A name in a directory of the changes and in the one of the host. */
struct overlay_entry {
	int upper, base; /* directories; base is -1 if it is not there */
	const char *name;
	struct stat u, b; /* of the entry in each */
	bool there;	  /* in the base; only then `b` counts */
};

/* What is made of an entry, in 16 bytes of a SHA-256. */
#define OVERLAY_SUM 33 /* characters, with the terminator */

/* The same file below @dir, if it is one of @type on the same file system. Return: descriptor or -errno. */
int overlay_open(int dir, const char *name, mode_t type, int flags);

/* Ends a sum, and tells whether it is @want. */
int overlay_sum_end(struct digest *d, char ret_sum[OVERLAY_SUM]);

/* Adds what the file @in holds: bytes and where they are, and its size. Return: 0 or -errno. */
int overlay_sum_file(int in, off_t size, struct digest *d);

/* Does a change deserve a second look: is it of a name that programs of the host obey, or had it set-id bits? */
bool overlay_mark(const char *path, mode_t mode);

/*
 * Makes what is at @e->name of the base what it is in the changes. Nothing is put in place but what @want is
 * the sum of, with @d begun as for that. Return: 0, -ESTALE if it is something else by now, or -errno.
 */
int overlay_commit_file(const struct overlay_entry *e, struct digest *d, const char *want);
int overlay_commit_link(const struct overlay_entry *e, const char *raw, unsigned depth);
/* Return: the new or old directory in the base, or -errno. */
int overlay_commit_dir(const struct overlay_entry *e);

/* Removes @name with all that is below it. Return: 0 or -errno. */
int overlay_remove(int dir, const char *name, unsigned depth);

/* Where a link may lead, or -ENOTSUP: only to what lies below the directory. @depth is that of the link. */
int overlay_link_target(const char *target, unsigned depth, char ret_target[PATH_MAX]);

/* Reads the link @name of @dir. Return: 0 or -errno. */
int overlay_read_link(int dir, const char *name, char ret_target[PATH_MAX]);

#endif
