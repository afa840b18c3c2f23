/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a migration stream that has a machine's memory, as QEMU reads it. */
#ifndef XSBX_VM_TASK_RAM_STREAM_H
#define XSBX_VM_TASK_RAM_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "ram_pages.h"

/*
 * The file: what begins every stream, which kind of machine it is, one section with its memory, and
 * what QEMU's xen-save-devices-state has written, but for its beginning, which is that of a stream
 * again.
 *
 *	magic, version | configuration | RAM: blocks | RAM: pages | devices, end | description
 *
 * The description is for tools, and empty: without one QEMU says that it misses it, and that would stand in a reader's way who looks
 * for what is wrong with a machine.
 */

#define RAM_STREAM_MAGIC  8u		  /* bytes that every stream begins with */
#define RAM_STREAM_LAST	  "\x06\0\0\0"	  /* the description's type, and its size */
#define RAM_STREAM_STRIDE (8u + RAM_PAGE) /* from one page to the next */

/* Bytes before the first page. */
size_t ram_stream_first(void);

/* Bytes up to the devices, with so many pages. */
size_t ram_stream_size(uint32_t pages);

/**
 * ram_stream_write() - Write everything but the pages, for which room is left
 * @out: As many bytes as ram_stream_size() says
 * @bytes: Size of the machine's memory
 * @extent: Its pages that are told; the others stay as they are
 * @nextents: How many
 */
void ram_stream_write(uint8_t *out, uint64_t bytes, const struct ram_extent *extent,
		      size_t nextents);

/* Is this the beginning of a stream as we know it? Return: 0 or -EPROTO. */
int ram_stream_known(const uint8_t bytes[RAM_STREAM_MAGIC]);

#endif
