/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what a process writes to a pipe or socket, as it comes. */
#ifndef XSBX_VM_BASE_READER_H
#define XSBX_VM_BASE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

/*
 * Embedded by its owner, who sets `bytes`, `closed` and `data` and keeps it until `closed`.
 *
 * - `bytes` is never called with 0 bytes; it may close the reader.
 * - `open` from a successful reader_open() to reader_close().
 * - At the end of file or at an error the reader falls silent; `ended` says so.
 */
struct reader {
	uv_poll_t poll;
	int fd;
	bool open, ended;
	void (*bytes)(struct reader *r, const void *bytes, size_t len);
	void (*end)(struct reader *r); /* end of file or error; may be NULL */
	void (*closed)(struct reader *r);
	void *data;
};

/* Starts to read @fd, which becomes the reader's, also on failure. Return: 0 or -errno. */
int reader_open(struct reader *r, uv_loop_t *loop, int fd);

/* Reads what is there right now, without waiting; a quarter MiB at most. */
void reader_drain(struct reader *r);

/* Only if it is open; idempotent. */
void reader_close(struct reader *r);

#endif
