/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes that are done when all of it is done. They block: not for the loop's descriptors. */
#ifndef XSBX_VM_BASE_IO_H
#define XSBX_VM_BASE_IO_H

#include <stddef.h>
#include <sys/types.h>

/*
 * A regular file of a directory, to be read. Anything else is not waited for, as the writer of a FIFO would
 * be, and not followed. Return: a descriptor, -EBADMSG if it is something else, or -errno.
 */
int fileio_open(int dir, const char *name);

/* Exactly @len bytes, from where the descriptor stands. Return: 0, -EBADMSG if it ends before that, or -errno. */
int fileio_read(int fd, void *buf, size_t len);

/* Likewise, from @at. */
int fileio_read_at(int fd, void *buf, size_t len, off_t at);

/* All of it, to where the descriptor stands. Return: 0 or -errno; a part of it may be written then. */
int fileio_write(int fd, const void *buf, size_t len);

/* Likewise, to @at. */
int fileio_write_at(int fd, const void *buf, size_t len, off_t at);

#endif
