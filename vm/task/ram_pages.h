/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of another process that are its own: written since it has mapped a file privately, or of no
 * file. */
#ifndef XSBX_VM_TASK_RAM_PAGES_H
#define XSBX_VM_TASK_RAM_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RAM_PAGE 4096u

/* Pages in a row, counted from the beginning of the range. */
struct ram_extent {
	uint32_t first, count;
};

/* A range of another process' memory. Zeroed before ram_pages_open(). */
struct ram_pages {
	pid_t pid;
	int pidfd; /* not owned */
	int pagemap;
	uint64_t address;
	uint32_t count; /* pages of the range */
	/* Its own ones, ascending, as of the last scan. */
	struct ram_extent *extent;
	size_t nextents, cap;
	uint32_t own;
};

/**
 * ram_pages_open() - Begin with a process
 * @r: Result, zeroed; close it with ram_pages_close(), also after a failure
 * @pid: Process
 * @pidfd: The same one, by which it is known that it still is
 * @address: Beginning of the range, a multiple of RAM_PAGE
 * @bytes: Its size, likewise
 *
 * Return: 0, -EINVAL, or -errno.
 */
int ram_pages_open(struct ram_pages *r, pid_t pid, int pidfd, uint64_t address, uint64_t bytes);
void ram_pages_close(struct ram_pages *r);

/* Finds out which pages are its own. Return: 0 or -errno. */
int ram_pages_scan(struct ram_pages *r);

/* From now on it is noted which are written to. Return: 0, -EOPNOTSUPP if this kernel does not do
 * that, or -errno. */
int ram_pages_watch(struct ram_pages *r);

/* Finds out which of its own were written to since ram_pages_watch(). Return: 0 or -errno. */
int ram_pages_scan_written(struct ram_pages *r);

/**
 * ram_pages_read() - Copy its own pages
 * @r: Scanned
 * @first: Where the first of them goes, or
 * @stride: ... if not 0, each so many bytes behind the one before; else each to its place: @first
 *	is where page 0 is
 *
 * Return: 0; -EFAULT if some are gone; -ESRCH if the process is, and what was read may be
 * another's.
 */
int ram_pages_read(const struct ram_pages *r, uint8_t *first, size_t stride);

#endif
