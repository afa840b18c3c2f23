/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks. */
#include "chunk.h"

#include <errno.h>
#include <string.h>
#include <zstd.h>

/*
 * The checksum is of the compressed bytes. So a chunk is checked before anything tries to understand
 * it, the store can be asked whether it has a chunk of that name, and what a machine has anyway of a
 * chunk that others have too is transferred once. Another version of the library may compress the
 * same bytes in another way; then it is another chunk.
 */

#define LEVEL 3

size_t chunk_stored_max(size_t bytes)
{
	return ZSTD_COMPRESSBOUND(bytes);
}

int chunk_pack(const void *in, size_t len, void *out, size_t *ret_stored,
	       char ret_sha256[DIGEST_HEX])
{
	const size_t n = ZSTD_compress(out, chunk_stored_max(len), in, len, LEVEL);

	if (ZSTD_isError(n))
		return -ENOMEM;
	*ret_stored = n;
	return digest_of(out, n, ret_sha256);
}

int chunk_unpack(const void *in, size_t stored, const char *sha256, void *out, size_t len)
{
	char found[DIGEST_HEX];
	int r = digest_of(in, stored, found);

	if (r < 0)
		return r;
	if (strcmp(found, sha256) != 0)
		return -EBADMSG;
	/* It never writes more than there is room for, whatever the frame says about itself. */
	return ZSTD_decompress(out, len, in, stored) == len ? 0 : -EBADMSG;
}
