/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks: compressing and checksumming, verifying and unpacking. */
#ifndef XSBX_VM_STORE_CHUNK_H
#define XSBX_VM_STORE_CHUNK_H

#include <stddef.h>

#include "vm/base/digest.h"

/* The largest compressed size of a chunk of @bytes. */
size_t chunk_stored_max(size_t bytes);

/**
 * chunk_pack() - Compress a chunk
 * @in: Bytes
 * @len: Number of bytes
 * @out: Buffer of chunk_stored_max(@len) bytes
 * @ret_stored: Compressed size
 * @ret_sha256: Checksum of the compressed bytes
 *
 * Return: 0 or -ENOMEM.
 */
int chunk_pack(const void *in, size_t len, void *out, size_t *ret_stored,
	       char ret_sha256[DIGEST_HEX]);

/**
 * chunk_unpack() - Verify a chunk, and unpack it if it is valid
 * @in: Compressed bytes
 * @stored: Number of bytes
 * @sha256: Their expected checksum
 * @out: Result
 * @len: Its exact size
 *
 * Return: 0, -EBADMSG if it is invalid in any way, -ENOMEM.
 */
int chunk_unpack(const void *in, size_t stored, const char *sha256, void *out, size_t len);

#endif
