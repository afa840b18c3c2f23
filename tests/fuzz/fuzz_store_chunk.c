/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes chunks whose checksum is right, of which the first byte says how large they should be. */
/* modules: vm/store/chunk.c vm/base/digest.c */
/* libs: crypto zstd */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "vm/store/chunk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t len = size ? 1 + data[0] * 64u : 0;
	char sum[DIGEST_HEX], *out;
	int r;

	if (!size)
		return 0;
	out = malloc(len); /* the sanitizer sees a byte too many */
	assert(out && digest_of(data + 1, size - 1, sum) == 0);
	r = chunk_unpack(data + 1, size - 1, sum, out, len);
	assert(r == 0 || r == -EBADMSG);
	free(out);
	return 0;
}
