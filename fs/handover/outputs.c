/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs of runs, as records: block by block. See outputs.h. */
#include "outputs.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>

#include "fs/keep/keep.h"
#include "internal.h"
#include "texts.h"
#include "vm/base/util.h"

/*
 * A block has a record of its own, and until it is on the disk its bytes are texts of the same id.
 * So a run that goes on printing costs what it prints, and no more: its own record says only how
 * long the output is. Outputs of a few bytes, and short ones of runs that have ended, are in the
 * run's record.
 */

enum {
	BLOCK_SPOOL = 1,
	BLOCK_INDEX,
	BLOCK_SLOT,
	BLOCK_LEN,
	BLOCK_WAITS,
	BLOCK_NONCE
}; /* never reuse */

#define FEW 512u /* bytes that go into the run's record while it goes on */

/* ---- writing ---- */

static bool is_short(const struct run *r, const struct spool *sp)
{
	if (sp->nblocks != 1 || sp->nshared || sp->block[0]->state == BLOCK_STORED)
		return false;
	return sp->len <= FEW || (run_ended(r) && sp->len <= SPOOL_MEMORY);
}

/* It was longer than it is allowed to be in the run's record, and is not any more. */
static void forget_block(struct handover_sink *sink, struct spool *sp)
{
	struct block *b = sp->block[0];

	if (sink->compares || !b->trail.id)
		return;
	(void)sink_drop(sink, KEEP_BLOCK, b->trail.id, 0);
	texts_forget(sink, &b->trail);
	b->trail.id = 0;
	sp->nput = 0;
}

int outputs_put_block(struct handover_sink *sink, struct block *b)
{
	const bool stored = b->state == BLOCK_STORED;
	struct buf *out;
	int r = 0;

	if (stored)
		texts_forget(sink, &b->trail);
	else
		r = texts_put(sink, NULL, &b->trail, 0, b->data, b->len);
	if (r < 0)
		return r;
	out = sink_begin_aside(sink);
	record_u64(out, BLOCK_SPOOL, b->spool);
	record_u64(out, BLOCK_INDEX, b->index);
	if (stored) {
		record_u64(out, BLOCK_SLOT, b->slot);
		record_u64(out, BLOCK_LEN, b->len);
		if (b->veiled)
			record_bytes(out, BLOCK_NONCE, b->nonce, sizeof(b->nonce));
	} else {
		record_u64(out, BLOCK_WAITS, b->state != BLOCK_OPEN);
	}
	return sink_end_aside(sink, KEEP_BLOCK, b->trail.id, 0);
}

int outputs_put(struct handover_sink *sink, const struct run *r, struct spool *sp, uint64_t *ret_id)
{
	struct touched *touched = &r->s->fs->touched;
	const bool all = sink->anew || sink->all || sink->compares;
	int e = 0;

	*ret_id = 0;
	if (!sp->nblocks)
		return 0;
	if (is_short(r, sp)) {
		forget_block(sink, sp);
		return 0;
	}
	*ret_id = touched_id(touched, &sp->id);
	for (uint32_t i = all ? sp->nshared : MAX(sp->nput, sp->nshared); e == 0 && i < sp->nblocks;
	     i++) {
		struct block *b = sp->block[i];

		touched_id(touched, &b->trail.id);
		b->spool = sp->id;
		b->index = i;
		e = outputs_put_block(sink, b);
	}
	if (e == 0 && !sink->compares)
		sp->nput = sp->nblocks - (sp->block[sp->nblocks - 1]->state == BLOCK_OPEN);
	return e;
}

/* ---- reading ---- */

/* The blocks that were read of an output. */
struct blocks {
	uint64_t id; /* first: this is the key */
	struct depot *depot;
	uint32_t first;
	struct spool sp;
};

/* Return: those of this id, also if there are none yet; NULL if out of memory. */
static struct blocks *blocks_of(struct fs *fs, uint64_t id)
{
	void *const *found = tfind(&id, &fs->inherited.spools, handover_by_id);
	struct blocks *of = found ? *found : calloc(1, sizeof(*of));

	if (found || !of)
		return of;
	of->id = id;
	of->depot = &fs->depot;
	if (!tsearch(of, &fs->inherited.spools, handover_by_id)) {
		free(of);
		return NULL;
	}
	touched_has_id(&fs->touched, id);
	return of;
}

/* What a record says. */
struct blocking {
	uint64_t spool, slot;
	uint32_t index, len;
	const unsigned char *nonce; /* or NULL */
	bool waits;
};

static int get_nonce(struct blocking *b, const struct record_field *f)
{
	if (!f->is_bytes || f->len != VEIL_NONCE)
		return -EBADMSG;
	b->nonce = (const unsigned char *)f->data;
	return 0;
}

static int get_field(struct blocking *b, const struct record_field *f)
{
	switch (f->tag) {
	case BLOCK_SPOOL: return record_get(f, 1, UINT64_MAX / 2, &b->spool);
	case BLOCK_INDEX: return record_get_u32(f, UINT32_MAX, &b->index);
	case BLOCK_SLOT: return record_get(f, 0, UINT32_MAX, &b->slot);
	case BLOCK_LEN: return record_get_u32(f, DEPOT_BLOCK, &b->len);
	case BLOCK_NONCE: return get_nonce(b, f);
	case BLOCK_WAITS: return record_get_bool(f, &b->waits);
	default: return 0;
	}
}

/* Its bytes are those of the texts of its id. */
static int make_open(struct fs *fs, uint64_t id, struct block **ret_b)
{
	struct block *b = block_new();
	struct trail trail = {.id = id};
	struct buf bytes = {.limit = DEPOT_BLOCK};
	int r = b ? texts_take_all(fs, &trail, &bytes) : -ENOMEM;

	if (r == 0)
		r = only_errno(block_append(b, bytes.data, bytes.len));
	buf_clear(&bytes);
	if (r < 0) {
		free(b);
		return r;
	}
	b->trail = trail;
	*ret_b = b;
	return 0;
}

static int add(struct fs *fs, uint64_t id, const struct blocking *want)
{
	struct blocks *of = blocks_of(fs, want->spool);
	struct block *b;
	int r;

	if (!of)
		return -ENOMEM;
	if (!of->sp.nblocks)
		of->first = want->index;
	if (want->index != of->first + of->sp.nblocks)
		return -EBADMSG;
	if (want->slot <= UINT32_MAX)
		r = depot_stored(&fs->depot, (uint32_t)want->slot, want->len, want->nonce, &b);
	else
		r = make_open(fs, id, &b);
	if (r < 0)
		return r;
	r = spool_put(&of->sp, b);
	if (r < 0) {
		block_unref(&fs->depot, b);
		return r;
	}
	b->trail.id = id;
	b->spool = of->id;
	b->index = want->index;
	touched_has_id(&fs->touched, id);
	if (b->state == BLOCK_OPEN && (want->waits || b->len == DEPOT_BLOCK))
		depot_put(&fs->depot, b);
	return 0;
}

int outputs_get(struct fs *fs, uint64_t id, struct record_reader fields)
{
	struct blocking b = {.slot = UINT64_MAX};
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		r = get_field(&b, &f);
		if (r < 0)
			return r;
	}
	if (r < 0 || !b.spool || id == 0 || id > UINT64_MAX / 2)
		return -EBADMSG;
	return add(fs, id, &b);
}

int outputs_take(struct fs *fs, struct spool *sp)
{
	struct blocks *of = blocks_of(fs, sp->id);
	uint32_t i = 0;
	int r = of ? 0 : -ENOMEM;

	if (r == 0 && of->sp.nblocks && of->first != sp->nblocks)
		r = -EBADMSG;
	for (; r == 0 && i < of->sp.nblocks; i++) {
		r = spool_put(sp, block_ref(of->sp.block[i]));
		if (r < 0)
			block_unref(&fs->depot, of->sp.block[i]);
	}
	if (r < 0)
		return r;
	spool_fini(&of->sp, &fs->depot); /* they are taken once */
	if (sp->nblocks)
		sp->nput = sp->nblocks - (sp->block[sp->nblocks - 1]->state == BLOCK_OPEN);
	return 0;
}

static void free_blocks(void *blocks)
{
	struct blocks *of = blocks;

	spool_fini(&of->sp, of->depot);
	free(of);
}

void outputs_clear(struct fs *fs)
{
	tdestroy(fs->inherited.spools, free_blocks);
	fs->inherited.spools = NULL;
}
