/* SPDX-License-Identifier: Apache-2.0 */
/* A file that lines are appended to, and that makes room for a new one when it is long. */
#ifndef XSBX_VM_BASE_ROTATED_H
#define XSBX_VM_BASE_ROTATED_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The file is PATH; older ones are PATH.1 (the newest) to PATH.N. Each line is one write(2) at its end, so that a process that is
 * killed leaves whole lines only, and so does a disk that is full. What a power cut has left of one is not continued.
 *
 * A process that may reach the directory looks before each line whether the file is still there under its name, and begins another
 * one if somebody (logrotate) has taken it away.
 */
struct rotated {
	int fd, dir; /* dir -1: names are left alone */
	char name[NAME_MAX - 16];
	uint64_t size; /* of the file, as far as it was written here */
	uint64_t most; /* bytes; 0: it may be as long as it likes */
	unsigned keep; /* older ones */
	uint64_t room; /* up to here there is room on the disk for sure */
	bool sync;     /* each line is on the disk before rotated_append() returns */
	bool torn;     /* it ends in the middle of a line */
	bool is_new;   /* nothing was appended since it was begun */
};

/**
 * rotated_open() - Open the file, or begin it with mode 0600
 * @r: Filled in; end it by rotated_close(), also on failure
 * @path: Absolute; a link at its end is refused
 * @most: Bytes after which it is rotated; 0: never, and then nothing but the file itself is ever touched
 * @keep: How many older ones are kept, at least 1
 * @sync: See above
 *
 * Return: 0, -ELOOP, -EINVAL if it is no regular file, -errno.
 */
int rotated_open(struct rotated *r, const char *path, uint64_t most, unsigned keep, bool sync);
void rotated_close(struct rotated *r);

/* The beginning of the last whole line, as much as there is room for. Return: its bytes, 0: there is none; -errno. */
int rotated_last(struct rotated *r, char *ret_line, size_t size);

/* Appends a line, which ends with a line feed; the file is rotated first, if need be and it can be. Return: 0, -ENOSPC, -errno. */
int rotated_append(struct rotated *r, const char *line, size_t len);

/* Sees to it that there is room on the disk for so many bytes more. Return: 0, -ENOSPC, -EDQUOT, -EFBIG; what the file system can't promise is
 * taken as promised. */
int rotated_reserve(struct rotated *r, size_t bytes);

#endif
