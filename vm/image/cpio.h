/* SPDX-License-Identifier: Apache-2.0 */
/* Writes "newc" cpio archives, which the kernel unpacks as its initial file system. */
#ifndef XSBX_VM_IMAGE_CPIO_H
#define XSBX_VM_IMAGE_CPIO_H

#include <stddef.h>
#include <stdint.h>

/*
 * Each function appends to @fd, whose position must be a multiple of 4, and is one afterwards.
 * Return: 0 or -errno.
 */

/* A regular file with @size bytes read from @from. */
int cpio_file(int fd, const char *name, uint32_t mode, int from, size_t size);

/* Another complete archive. */
int cpio_archive(int fd, int from, size_t size);

/* The end of the archive and of the file, padded with zeroes to a whole page. */
int cpio_end(int fd);

#endif
