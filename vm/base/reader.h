/* SPDX-License-Identifier: Apache-2.0 */
/* Reads from a pipe or socket on the loop, as data arrives. */
#ifndef XSBX_VM_BASE_READER_H
#define XSBX_VM_BASE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

/*
 * Embedded by its owner, who sets `bytes`, `closed` and `data` and keeps it until `closed`.
 *
 * - `bytes` is never called with 0 bytes; it may close the reader.
 * - `open` is true from a successful reader_open() to reader_close().
 * - After end of file or an error nothing more is read; `ended` is set.
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

/* Starts reading @fd and takes ownership of it, even on failure. Return: 0 or -errno. */
int reader_open(struct reader *r, uv_loop_t *loop, int fd);

/* Reads what is available right now, without waiting; 256 KiB at most. */
void reader_drain(struct reader *r);

/* Does nothing unless it is open; idempotent. */
void reader_close(struct reader *r);

#endif
