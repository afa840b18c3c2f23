/* SPDX-License-Identifier: Apache-2.0 */
/* A file that lines are appended to, and that makes room for a new one when it is long. */
#ifndef XSBX_VM_BASE_ROTATED_H
#define XSBX_VM_BASE_ROTATED_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rotated_flag {
	ROTATED_SYNC = 1, /* each line is on the disk before rotated_append() returns */
	ROTATED_HEIR = 2, /* another process has it, and ends before rotated_own() */
};

/*
 * The file is PATH; older ones are PATH.1 (the newest) to PATH.N. Each line is one write(2) at its end, so that a process that is
 * killed leaves whole lines only, and so does a disk that is full. What a power cut has left of one is not continued.
 *
 * A process that may reach the directory looks before each line whether the file is still there under its name, and begins another
 * one if somebody (logrotate) has taken it away.
 */
struct rotated {
	int fd, dir; /* dir -1: names are left alone; fd -1: it could not be had, which each line tries again */
	const char *path; /* the caller's */
	char name[NAME_MAX - 16];
	uint64_t size; /* of the file, when it was last looked at */
	uint64_t most; /* bytes; 0: it may be as long as it likes */
	unsigned keep; /* older ones */
	uint64_t room; /* up to here there is room on the disk for sure */
	bool sync;     /* each line is on the disk before rotated_append() returns */
	bool torn;     /* it ends in the middle of a line */
	bool is_new;   /* nothing was appended since it was begun */
	bool shares;   /* it is another's still: not locked */
	int stuck;     /* 0; -errno: why it can't be rotated, and grows */
};

/**
 * rotated_open() - Open the file, or begin it with mode 0600
 * @r: Filled in; end it by rotated_close(), also on failure
 * @path: Absolute, not copied; a link at its end is refused
 * @most: Bytes after which it is rotated; 0: never, and then nothing but the file itself is ever touched
 * @keep: How many older ones are kept, at least 1
 * @flags: See above
 *
 * Return: 0, -ELOOP, -EINVAL if it is no regular file, -EBUSY if another process has it, -errno. After failure it may be appended to all the same,
 * which tries again; but not after -EINVAL of a path.
 */
int rotated_open(struct rotated *r, const char *path, uint64_t most, unsigned keep, unsigned flags);

/* Could this process open it? Nothing is made, changed or locked. @path: absolute. Return: 0, -errno as rotated_open(), but for -EBUSY. */
int rotated_probe(const char *path);
/* ... and give names to older ones? Return: 0, -errno. */
int rotated_probe_names(const char *path);

/* An heir's turn: locks it, and looks at it anew. Waits so long for whoever has it. Return: 0, -EBUSY, -errno: then each line tries again. */
int rotated_own(struct rotated *r, unsigned patience_ms);
void rotated_close(struct rotated *r);

/* The beginning of the last whole line, of PATH.1 if the file has none and names may be looked at, as much as there is room for. Return: its bytes, 0: there is none; -errno. */
int rotated_last(struct rotated *r, char *ret_line, size_t size);

/* Appends a line, which ends with a line feed; the file is rotated first, if need be and it can be. Return: 0, -ENOSPC, -errno. */
int rotated_append(struct rotated *r, const char *line, size_t len);

/* Sees to it that there is room on the disk for so many bytes more. Return: 0, -ENOSPC, -EDQUOT, -EFBIG; what the file system can't promise is
 * taken as promised. */
int rotated_reserve(struct rotated *r, size_t bytes);

#endif
