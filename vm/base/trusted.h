/* SPDX-License-Identifier: Apache-2.0 */
/* Opens what only root can have made, and only root can change, whoever else has the machine. */
#ifndef XSBX_VM_BASE_TRUSTED_H
#define XSBX_VM_BASE_TRUSTED_H

#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

/* Room for why something is not trusted, or can't be opened. */
#define TRUSTED_WHY 512

/**
 * trusted_open() - Open a file or directory that nobody but root can change or replace
 * @path: Absolute
 * @flags: O_RDONLY, or O_PATH; O_DIRECTORY
 * @ret_why: On failure, what is wrong with which part of the path: TRUSTED_WHY bytes
 *
 * Each directory that leads there, each link on the way and what it leads to, and the file itself must be
 * root's, and neither its group nor others may write to them. What is returned is what was looked at.
 *
 * Return: a descriptor, which is close-on-exec; -EPERM if it is not trusted; -ENOENT; -EBADMSG if it is neither
 * a file nor a directory; or -errno.
 */
int trusted_open(const char *path, int flags, char ret_why[TRUSTED_WHY]);

/* Likewise @name in @dir, which was opened by trusted_open(). */
int trusted_open_at(int dir, const char *name, int flags, char ret_why[TRUSTED_WHY]);

/**
 * trusted_walk() - The same from another directory on, by another user's word; for tests
 * @top: Directory that stands for /; trusted only if it is right as well
 * @owner: Whose files are trusted, besides root's
 * @path: Path; it may begin with a slash
 */
int trusted_walk(int top, uid_t owner, const char *path, int flags, char ret_why[TRUSTED_WHY]);

/* Where a trusted directory is, without links. Return: 0, or -errno as trusted_open(). */
int trusted_dir(const char *path, char ret_path[PATH_MAX]);

/* Where an open file or directory is, without links. Return: 0 or -errno. */
int trusted_path(int fd, char ret_path[PATH_MAX]);

#endif
