/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes of whole buffers. They block: not for descriptors of the loop. */
#ifndef XSBX_VM_BASE_IO_H
#define XSBX_VM_BASE_IO_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/*
 * Opens a regular file in a directory for reading. Does not block on a FIFO, nor follow a symbolic
 * link. Return: a descriptor, -EBADMSG if it is not a regular file, or -errno.
 */
int fileio_open(int dir, const char *name);

/* Opens a directory in a directory, to read what is in it; a symbolic link is not followed. Return:
 * NULL with errno. */
DIR *fileio_list(int dir, const char *name);

/* Identifies a file and its content: the time of change (ctime) cannot be set. */
struct fileio_identity {
	uint64_t dev, ino, size;
	struct timespec mtime, ctime;
};

struct stat;
struct fileio_identity fileio_identity(const struct stat *st);
bool fileio_same(const struct fileio_identity *a, const struct fileio_identity *b);

/* Is @fd what @name in @dir still leads to? */
bool fileio_is_at(int fd, int dir, const char *name);

/* Locks a directory as long as the descriptor is open. Return: a descriptor, -EAGAIN if somebody
 * else has locked it, or it was renamed or removed meanwhile, or -errno. */
int fileio_lock(const char *path);

/* Reads exactly @len bytes from the current offset. Return: 0, -EBADMSG if the file is shorter, or
 * -errno. */
int fileio_read(int fd, void *buf, size_t len);

/* Likewise, from @at. */
int fileio_read_at(int fd, void *buf, size_t len, off_t at);

/* Writes all of it at the current offset. Return: 0, or -errno, with part of it possibly written. */
int fileio_write(int fd, const void *buf, size_t len);

/* Likewise, to @at. */
int fileio_write_at(int fd, const void *buf, size_t len, off_t at);

#endif
