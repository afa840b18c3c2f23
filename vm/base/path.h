/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as text, and creating the directories they lead through. */
#ifndef XSBX_VM_BASE_PATH_H
#define XSBX_VM_BASE_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * Is @path strictly below @dir? Both are absolute, without "..", empty components, or a trailing slash.
 * Only text is compared: resolving symbolic links is up to the caller.
 */
bool path_is_below(const char *path, const char *dir);

/* Likewise, or @dir itself. */
bool path_is_within(const char *path, const char *dir);

/* Puts together @dir/@prefix@name. Return: 0 or -ENAMETOOLONG, with @path cut off. */
int path_join(char path[PATH_MAX], const char *dir, const char *prefix, const char *name);

/* Opens the absolute @path below another root, "" for this one, for reading. Return: NULL with
 * errno. */
FILE *path_open(const char *root, const char *path);

/*
 * Creates a directory with mode 0700, unless it exists. It is shared by several processes of ours,
 * and the last one removes it. The sticky bit, which has no other effect there, marks it as ours,
 * so that a directory made by somebody else is never removed. Return: 0 or -errno.
 */
int path_make_shared(const char *dir);
void path_leave_shared(const char *dir);

/* Creates a directory and its missing parents, all with @mode. Return: 0 or -errno. */
int path_make(const char *path, mode_t mode);

/* Likewise; what is made is there after a power cut as well. */
int path_make_kept(const char *path, mode_t mode);

/* Opens a directory in a directory, which is made with mode 0700 if need be, and then is there
 * after a power cut as well. A symbolic link is not followed. Return: a descriptor or -errno. */
int path_make_in(int dir, const char *name);

#endif
