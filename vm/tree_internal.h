/* SPDX-License-Identifier: Apache-2.0 */
/* What tree.c and tree_apply.c share. */
#ifndef XSBX_TREE_INTERNAL_H
#define XSBX_TREE_INTERNAL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define TREE_DEPTH_MAX 100u /* directories in one another; each takes descriptors */
#define TREE_MODE      0777 /* what is taken over of a file's mode: no set-id bits, no sticky one */

/* A name in a directory of the changes and in the one of the host. */
struct tree_entry {
	int upper, base; /* directories; base is -1 if it is not there */
	const char *name;
	struct stat u, b; /* of the entry in each */
	bool there;	  /* in the base; only then `b` counts */
};

/* The same file below @dir, if it is one of @type on the same file system. Return: descriptor or -errno. */
int tree_open(int dir, const char *name, mode_t type, int flags);

/* Makes what is at @e->name of the base what it is in the changes. Return: 0 or -errno. */
int tree_apply_file(const struct tree_entry *e);
int tree_apply_link(const struct tree_entry *e, unsigned depth);
/* Return: the new or old directory in the base, or -errno. */
int tree_apply_dir(const struct tree_entry *e);

/* Removes @name with all that is below it. Return: 0 or -errno. */
int tree_remove(int dir, const char *name, unsigned depth);

/* Where a link may lead, or -ENOTSUP: only to what lies below the directory. @depth is that of the link. */
int tree_link_target(const char *target, unsigned depth, char ret_target[PATH_MAX]);

/* Reads the link @name of @dir. Return: 0 or -errno. */
int tree_read_link(int dir, const char *name, char ret_target[PATH_MAX]);

#endif
