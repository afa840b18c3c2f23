/* SPDX-License-Identifier: Apache-2.0 */
/* Packs on disk. See pack_file.h. */
#include "pack_file.h"

#include <errno.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "pack_internal.h"
#include "vm/base/util.h"

/*
 * A header, then the records as one zstd frame, to the end:
 *
 *	u8[8] "xsbxpack", u32 version, u32 changed, u32 left_out, u32 0, u64 bytes of the records
 *
 * That it is what was written, its seal says (seal.h); that it is a pack, pack_maker.c finds out, as of what comes from a
 * sandbox.
 */

#define MAGIC	 "xsbxpack"
#define VERSION	 4u /* 3: without who wrote what; 2: and without inode numbers */
#define HEADER	 (8u + 4 * 4 + 8)
#define LEVEL	 1 /* zstd */
#define BUF_SIZE (1u << 20)

static int put_header(const struct pack *p, struct sink *to)
{
	uint8_t bytes[HEADER];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	put_bytes(&o, MAGIC, 8);
	put_u32(&o, VERSION);
	put_u32(&o, p->flaws.changed);
	put_u32(&o, p->flaws.left_out);
	put_u32(&o, 0);
	put_u64(&o, p->size);
	return to->write(to, bytes, o.len);
}

static int compress(ZSTD_CCtx *z, const struct pack *p, struct sink *to, void *buf)
{
	ZSTD_inBuffer in = {p->map, p->size, 0};
	size_t left = 1;
	int r = 0;

	while (r == 0 && left) {
		ZSTD_outBuffer out = {buf, BUF_SIZE, 0};

		left = ZSTD_compressStream2(z, &out, &in, ZSTD_e_end);
		r = ZSTD_isError(left) ? -ENOMEM : to->write(to, buf, out.pos);
	}
	return r;
}

int pack_store(const struct pack *p, struct sink *to)
{
	_cleanup_free_ void *buf = malloc(BUF_SIZE);
	ZSTD_CCtx *z = ZSTD_createCCtx();
	int r = buf && z ? put_header(p, to) : -ENOMEM;

	if (r == 0 && ZSTD_isError(ZSTD_CCtx_setParameter(z, ZSTD_c_compressionLevel, LEVEL)))
		r = -ENOMEM;
	if (r == 0)
		r = compress(z, p, to, buf);
	ZSTD_freeCCtx(z);
	return r;
}

/* ---- reading ---- */

struct header {
	struct pack_flaws flaws;
	uint64_t size;
};

static int get_header(struct source *from, struct header *ret)
{
	uint8_t bytes[HEADER];
	struct proto_in in = {bytes, bytes + sizeof(bytes), false};
	int r = source_read(from, bytes, sizeof(bytes));
	char magic[8];
	uint32_t version;

	if (r < 0)
		return r;
	get_bytes(&in, magic, sizeof(magic));
	if (memcmp(magic, MAGIC, sizeof(magic)) != 0)
		return -EBADMSG;
	version = get_u32(&in);
	if (version > VERSION || version < 2u)
		return -EPROTONOSUPPORT;
	*ret = (struct header){0};
	ret->flaws.changed = get_u32(&in);
	ret->flaws.left_out = get_u32(&in);
	if (get_u32(&in) != 0)
		return -EBADMSG;
	ret->size = get_u64(&in);
	return 0;
}

/* What is being read, and where of it whole records wait for their rest. */
struct load {
	struct source *from;
	ZSTD_DCtx *z;
	struct pack_maker *maker;
	uint8_t *raw, *buf; /* BUF_SIZE each: as on disk, and unpacked */
	size_t kept;	    /* bytes in `buf` */
	uint64_t size;	    /* unpacked so far */
};

/* Takes @n more bytes that stand in `buf` behind those kept. */
static int take(struct load *l, size_t n)
{
	size_t used;
	int r;

	l->size += n;
	l->kept += n;
	r = pack_maker_add(l->maker, l->buf, l->kept, &used);
	if (r < 0)
		return r;
	memmove(l->buf, l->buf + used, l->kept - used);
	l->kept -= used;
	return 0;
}

/* Unpacks what was read. @done: set at the end of the frame. */
static int unpack(struct load *l, ZSTD_inBuffer *in, bool *done)
{
	bool full = false;

	while ((in->pos < in->size || full) && !*done) {
		ZSTD_outBuffer out = {l->buf + l->kept, BUF_SIZE - l->kept, 0};
		const size_t left = ZSTD_decompressStream(l->z, &out, in);
		int r;

		if (ZSTD_isError(left)) /* it takes memory when it sees how large its window is */
			return ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation ? -ENOMEM
										       : -EBADMSG;
		*done = left == 0;
		full = out.pos == out.size;
		r = take(l, out.pos);
		if (r < 0)
			return r;
	}
	return in->pos < in->size ? -EBADMSG : 0;
}

static int read_frame(struct load *l, uint64_t size)
{
	ZSTD_inBuffer in = {l->raw, 0, 0};
	bool done = false;
	ssize_t n = 1;
	int r = 0;

	while (r == 0 && n > 0) {
		n = l->from->read(l->from, l->raw, BUF_SIZE);
		in.size = n > 0 ? (size_t)n : 0;
		in.pos = 0;
		r = n < 0 ? (int)n : n > 0 ? unpack(l, &in, &done) : 0;
		if (r == 0 && l->size > size)
			r = -EBADMSG;
	}
	if (r < 0)
		return r;
	return done && !l->kept && l->size == size ? 0 : -EBADMSG;
}

int pack_load(struct source *from, const struct pack_limits *limits, struct pack **ret_pack)
{
	struct load l = {.from = from, .z = ZSTD_createDCtx()};
	struct header h;
	int r;

	l.raw = malloc(BUF_SIZE);
	l.buf = malloc(BUF_SIZE);
	r = l.z && l.raw && l.buf ? get_header(from, &h) : -ENOMEM;
	if (r == 0)
		r = pack_maker_new(limits, &l.maker);
	if (r == 0)
		r = read_frame(&l, h.size);
	if (r == 0)
		r = pack_maker_end(steal_ptr(l.maker), &h.flaws, ret_pack);
	pack_maker_free(l.maker);
	ZSTD_freeDCtx(l.z);
	free(l.raw);
	free(l.buf);
	return r == -EPROTO ? -EBADMSG : r;
}
