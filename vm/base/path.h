/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as text, and the directories on the way to them. */
#ifndef XSBX_VM_BASE_PATH_H
#define XSBX_VM_BASE_PATH_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Is @path below @dir, and not @dir itself? Both are absolute, without "..", empty parts, or a slash at the
 * end. Only their text is compared: whether links lie in them is for the caller to know.
 */
bool path_is_below(const char *path, const char *dir);

/* Likewise, or @dir itself. */
bool path_is_within(const char *path, const char *dir);

/*
 * A directory of ours that several processes use, and whoever is the last one takes away: makes it, unless it is
 * there, for its owner alone. One that somebody else has made stays. Which it is says its sticky bit, which
 * means nothing where nobody else may write. Return: 0 or -errno.
 */
int path_make_shared(const char *dir);
void path_leave_shared(const char *dir);

/* Makes a directory, and those above it that are not there, all with @mode. Return: 0 or -errno. */
int path_make(const char *path, mode_t mode);

#endif
