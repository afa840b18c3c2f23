/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of machines, packed. See packed_ram.h. */
#include "packed_ram.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <zstd.h>

#include "agent/protocol.h"
#include "vm/base/io.h"
#include "vm/base/memory.h"
#include "vm/base/sparse.h"
#include "vm/base/util.h"

/*
 * A row of blocks, of those parts of the file that are no hole, in their order:
 *
 *	u64 where in the file, u32 bytes packed, u32 bytes, the packed bytes (zstd)
 *
 * Lengths are checked before anything is believed. That nothing is missing at the end, and that it is what was written, its
 * seal says (seal.h).
 */

#define LEVEL 1 /* twice as fast as 3, and hardly larger */
#define BLOCK (256u << 10)
#define HEAD  16u

struct buffers {
	char *plain, *packed; /* `packed`: room for a head before it */
	ZSTD_CCtx *pack;
	ZSTD_DCtx *unpack;
};

static int buffers_new(struct buffers *b)
{
	b->plain = malloc(BLOCK);
	b->packed = malloc(HEAD + ZSTD_COMPRESSBOUND(BLOCK));
	b->pack = ZSTD_createCCtx();
	b->unpack = ZSTD_createDCtx();
	return b->plain && b->packed && b->pack && b->unpack ? 0 : -ENOMEM;
}

static void buffers_free(struct buffers *b)
{
	free(b->plain);
	free(b->packed);
	ZSTD_freeCCtx(b->pack);
	ZSTD_freeDCtx(b->unpack);
}

static int write_block(const struct buffers *b, int from, struct sink *to, uint64_t at, size_t len)
{
	struct proto_out head = {(uint8_t *)b->packed, 0, HEAD, false};
	int r = fileio_read_at(from, b->plain, len, (off_t)at);
	size_t n;

	if (r < 0 || sparse_is_zero(b->plain, len))
		return r;
	n = ZSTD_compressCCtx(b->pack, b->packed + HEAD, ZSTD_COMPRESSBOUND(BLOCK), b->plain, len,
			      LEVEL);
	if (ZSTD_isError(n))
		return -ENOMEM;
	put_u64(&head, at);
	put_u32(&head, (uint32_t)n);
	put_u32(&head, (uint32_t)len);
	return to->write(to, b->packed, HEAD + n);
}

int packed_ram_write(int from, uint64_t size, struct sink *to)
{
	struct buffers b = {0};
	int r = buffers_new(&b);
	off_t at = 0;

	while (r == 0 && at < (off_t)size) {
		at = sparse_next(from, at, (off_t)size);
		if (at < 0 || at >= (off_t)size) {
			r = (int)MIN(at, 0);
			break;
		}
		at &= ~(off_t)(SPARSE_PAGE - 1);
		r = write_block(&b, from, to, (uint64_t)at, (size_t)MIN(BLOCK, (off_t)size - at));
		at += BLOCK;
	}
	buffers_free(&b);
	return r;
}

/* Return: 1, 0 at the end, or -errno. *@at: where blocks may begin. */
static int read_block(const struct buffers *b, struct source *from, int to, uint64_t size,
		      uint64_t *at)
{
	uint8_t bytes[HEAD];
	struct proto_in in = {bytes, bytes + HEAD, false};
	const ssize_t n = from->read(from, bytes, HEAD);
	uint32_t stored, len;
	uint64_t place;
	int r;

	if (n <= 0)
		return (int)n;
	place = get_u64(&in);
	stored = get_u32(&in);
	len = get_u32(&in);
	if (n != HEAD || !len || len > BLOCK || stored > ZSTD_COMPRESSBOUND(BLOCK) ||
	    place % SPARSE_PAGE || place < *at || place > size || len > size - place)
		return -EBADMSG;
	r = source_read(from, b->packed, stored);
	if (r < 0)
		return r;
	if (ZSTD_decompressDCtx(b->unpack, b->plain, len, b->packed, stored) != len)
		return -EBADMSG;
	*at = place + len;
	r = sparse_write(to, b->plain, len, (off_t)place);
	return r < 0 ? r : 1;
}

int packed_ram_read(struct source *from, uint64_t size)
{
	_cleanup_close_ int to = memory_new("xsbx-ram");
	struct buffers b = {0};
	uint64_t at = 0;
	int r;

	if (to < 0)
		return to;
	r = ftruncate(to, (off_t)size) < 0 ? -errno : buffers_new(&b);
	for (int more = 1; r == 0 && more;) {
		more = read_block(&b, from, to, size, &at);
		r = MIN(more, 0);
	}
	buffers_free(&b);
	if (r == 0)
		r = memory_seal(to);
	return r < 0 ? r : steal_fd(&to);
}
