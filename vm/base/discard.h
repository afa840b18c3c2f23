/* SPDX-License-Identifier: Apache-2.0 */
/* Files in memory that nobody needs any more: to free a gigabyte of pages takes the kernel 0.1 s,
 * in which the loop would stand still. */
#ifndef XSBX_VM_BASE_DISCARD_H
#define XSBX_VM_BASE_DISCARD_H

#include <stddef.h>

struct context;

/* From now on a worker thread frees what is large, for who calls from the loop's; before, and after
 * discard_stop(), and for other threads, the caller does. The first context does it, if there are
 * several. */
void discard_start(struct context *ctx);
void discard_stop(const struct context *ctx);

/* Unmaps @map (or NULL) of @size bytes, and closes @fd (or -1), whose pages go if nobody else has
 * it open. */
void discard(int fd, void *map, size_t size);

#endif
