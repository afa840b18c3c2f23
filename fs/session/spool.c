/* SPDX-License-Identifier: Apache-2.0 */
/* Append-only output: small amounts in memory, more in the depot's blocks. */
#include "spool.h"

#include <assert.h>
#include <errno.h>

#include "vm/base/util.h"

void spool_fini(struct spool *sp, struct depot *d)
{
	for (uint32_t i = 0; i < sp->nblocks; i++)
		block_unref(d, sp->block[i]);
	free(sp->block);
	*sp = (struct spool){0};
}

void spool_lose(struct spool *sp, int err, uint64_t len)
{
	if (!sp->err)
		sp->err = err;
	sp->lost += len;
}

/* Return: 0 or -ENOMEM. */
static int reserve(struct spool *sp, uint32_t n)
{
	uint32_t cap = sp->cap ? sp->cap : 1;
	struct block **block;

	while (cap < n)
		cap *= 2;
	if (cap == sp->cap)
		return 0;
	block = reallocarray(sp->block, cap, sizeof(struct block *));
	if (!block)
		return -ENOMEM;
	sp->block = block;
	sp->cap = cap;
	return 0;
}

/* The block that grows, a new one if need be; NULL if out of memory. */
static struct block *last_block(struct spool *sp)
{
	struct block *b;

	if (sp->nblocks && sp->block[sp->nblocks - 1]->len < DEPOT_BLOCK)
		return sp->block[sp->nblocks - 1];
	if (reserve(sp, sp->nblocks + 1) < 0)
		return NULL;
	b = block_new();
	if (b)
		sp->block[sp->nblocks++] = b;
	return b;
}

int spool_put(struct spool *sp, struct block *b)
{
	if (sp->nblocks && sp->block[sp->nblocks - 1]->len < DEPOT_BLOCK)
		return -EBADMSG;
	if (reserve(sp, sp->nblocks + 1) < 0)
		return -ENOMEM;
	sp->block[sp->nblocks++] = b;
	sp->len += b->len;
	return 0;
}

/* Bytes of it that are not on disk; what waits is always at the end. */
static size_t waiting(const struct spool *sp)
{
	size_t n = 0;

	for (uint32_t i = sp->nblocks; i-- > 0;) {
		const struct block *b = sp->block[i];

		if (b->state == BLOCK_STORED)
			break;
		if (b->state != BLOCK_OPEN)
			n += b->len;
	}
	return n;
}

bool spool_is_behind(const struct spool *sp, const struct depot *d)
{
	const size_t n = waiting(sp);

	return n > SPOOL_WAITING || (n && d->waiting > DEPOT_WAITING);
}

void spool_append(struct spool *sp, struct depot *d, const void *data, size_t len)
{
	const char *bytes = data;

	if (len && !sp->err && d->err < 0 && spool_is_behind(sp, d))
		sp->err = d->err;
	while (len && !sp->err) {
		struct block *b = last_block(sp);
		const ssize_t n = b ? block_append(b, bytes, len) : -ENOMEM;

		if (n < 0) {
			sp->err = -ENOMEM;
			break;
		}
		bytes += n;
		len -= (size_t)n;
		sp->len += (uint64_t)n;
		if (b->len == DEPOT_BLOCK)
			depot_put(d, b);
	}
	sp->lost += len;
}

void spool_seal(struct spool *sp, struct depot *d)
{
	struct block *b = sp->nblocks ? sp->block[sp->nblocks - 1] : NULL;

	if (b && b->state == BLOCK_OPEN && sp->len > SPOOL_MEMORY)
		depot_put(d, b);
}

void spool_copy(struct spool *dst, const struct spool *src)
{
	const struct block *tail = src->nblocks ? src->block[src->nblocks - 1] : NULL;
	const uint32_t full = src->nblocks - (tail && tail->len < DEPOT_BLOCK);
	struct block *b;

	assert(!dst->len && !dst->err && !src->away);
	if (reserve(dst, src->nblocks) < 0) {
		spool_lose(dst, -ENOMEM, src->len + src->lost);
		return;
	}
	for (; dst->nblocks < full; dst->nblocks++)
		dst->block[dst->nblocks] = block_ref(src->block[dst->nblocks]);
	dst->nshared = full;
	dst->len = (uint64_t)full * DEPOT_BLOCK;
	if (dst->nblocks < src->nblocks) {
		assert(tail->state == BLOCK_OPEN);
		b = last_block(dst);
		if (!b || block_append(b, tail->data, tail->len) < 0)
			spool_lose(dst, -ENOMEM, tail->len);
		else
			dst->len += tail->len;
	}
	if (src->err)
		spool_lose(dst, src->err, src->lost);
}

uint64_t spool_size(const struct spool *sp)
{
	return sp->len + sp->lost;
}

struct block *spool_block(const struct spool *sp, uint64_t offset, uint32_t *ret_at)
{
	*ret_at = (uint32_t)(offset % DEPOT_BLOCK);
	return sp->block[offset / DEPOT_BLOCK];
}

ssize_t spool_read(const struct spool *sp, const struct depot *d, uint64_t offset, void *data,
		   size_t len)
{
	char *out = data;

	if (offset >= sp->len)
		return sp->err ? -EIO : 0;
	if (sp->away)
		return -EAGAIN;
	len = (size_t)MIN((uint64_t)len, sp->len - offset);
	for (size_t done = 0; done < len;) {
		uint32_t at;
		const struct block *b = spool_block(sp, offset + done, &at);
		const size_t n = MIN(len - done, (size_t)(b->len - at));
		const int r = depot_read(d, b, at, out + done, n);

		if (r < 0)
			return r;
		done += n;
	}
	return (ssize_t)len;
}
