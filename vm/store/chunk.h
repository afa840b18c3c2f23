/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks: compressed and named by checksum; checked and unpacked. */
#ifndef XSBX_VM_STORE_CHUNK_H
#define XSBX_VM_STORE_CHUNK_H

#include <stddef.h>

#include "vm/base/digest.h"

/* Most bytes that a chunk of @bytes has when it is compressed. */
size_t chunk_stored_max(size_t bytes);

/**
 * chunk_pack() - Compress a chunk
 * @in: Bytes
 * @len: How many
 * @out: chunk_stored_max(@len) bytes
 * @ret_stored: How many there are
 * @ret_sha256: Their checksum
 *
 * Return: 0 or -ENOMEM.
 */
int chunk_pack(const void *in, size_t len, void *out, size_t *ret_stored,
	       char ret_sha256[DIGEST_HEX]);

/**
 * chunk_unpack() - Check a chunk, and unpack it if it is right
 * @in: Bytes as stored
 * @stored: How many
 * @sha256: What their checksum must be
 * @out: Result
 * @len: Exactly so many bytes
 *
 * Return: 0, -EBADMSG if anything about it is not as it should be, -ENOMEM.
 */
int chunk_unpack(const void *in, size_t stored, const char *sha256, void *out, size_t len);

#endif
