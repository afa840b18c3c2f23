/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes of whole buffers. They block: not for descriptors of the loop. */
#ifndef XSBX_VM_BASE_IO_H
#define XSBX_VM_BASE_IO_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Opens a regular file in a directory for reading. Does not block on a FIFO, nor follow a symbolic link.
 * Return: a descriptor, -EBADMSG if it is not a regular file, or -errno.
 */
int fileio_open(int dir, const char *name);

/* Reads exactly @len bytes from the current offset. Return: 0, -EBADMSG if the file is shorter, or -errno. */
int fileio_read(int fd, void *buf, size_t len);

/* Likewise, from @at. */
int fileio_read_at(int fd, void *buf, size_t len, off_t at);

/* Writes all of it at the current offset. Return: 0, or -errno, with part of it possibly written. */
int fileio_write(int fd, const void *buf, size_t len);

/* Likewise, to @at. */
int fileio_write_at(int fd, const void *buf, size_t len, off_t at);

#endif
