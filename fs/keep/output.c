/* SPDX-License-Identifier: Apache-2.0 */
/* Records of outputs: short ones as they are, long ones by where they are. */
#include <errno.h>

#include "fs/session/fs.h"
#include "internal.h"

/* Never reuse a number. */
enum {
	SPOOL_WHICH = 1, /* enum run_output */
	SPOOL_LEN,	 /* of one that is away */
	SPOOL_LOST,
	SPOOL_ERR,
	SPOOL_BYTES, /* all of a short one */
	SPOOL_BLOCK,
};

enum { BLOCK_SLOT = 1, BLOCK_LEN, BLOCK_BYTES, BLOCK_GROWS };

static void put_block(struct buf *out, const struct block *b)
{
	const size_t at = record_open(out, SPOOL_BLOCK);

	if (b->state == BLOCK_STORED) {
		record_u64(out, BLOCK_SLOT, b->slot);
		record_u64(out, BLOCK_LEN, b->len);
	} else {
		record_bytes(out, BLOCK_BYTES, b->data, b->len);
		keep_put_u64(out, BLOCK_GROWS, b->state == BLOCK_OPEN);
	}
	record_close(out, at);
}

/* At rest: short ones are here, long ones elsewhere, and what grows is kept as far as it is short. */
static void put_at_rest(struct keep_out *o, const struct run *r, unsigned which)
{
	const struct spool *sp = &r->spool[which];
	const struct keep_output id = {*r->job != '\0',
				       *r->job ? r->id & JOB_NUMBER_MAX : r->number, which};
	const struct block *b = sp->nblocks ? sp->block[0] : NULL;

	if (sp->len > SPOOL_MEMORY && run_ended(r) && o->io->away(o->io->data, &id, sp)) {
		record_u64(o->out, SPOOL_LEN, sp->len);
		keep_put_u64(o->out, SPOOL_LOST, sp->lost);
		if (sp->err)
			record_i64(o->out, SPOOL_ERR, sp->err);
	} else if (b && b->state != BLOCK_STORED && sp->len <= SPOOL_MEMORY) {
		record_bytes(o->out, SPOOL_BYTES, b->data, b->len);
		keep_put_u64(o->out, SPOOL_LOST, sp->lost);
		if (sp->err)
			record_i64(o->out, SPOOL_ERR, sp->err);
	} else {
		const size_t n = b && b->state != BLOCK_STORED ? MIN(b->len, SPOOL_MEMORY) : 0;

		if (n)
			record_bytes(o->out, SPOOL_BYTES, b->data, n);
		record_u64(o->out, SPOOL_LOST, sp->lost + sp->len - n);
		record_i64(o->out, SPOOL_ERR, sp->err ? sp->err : -EIO);
	}
}

static void put_spool(struct keep_out *o, unsigned tag, const struct run *r, unsigned which)
{
	const struct spool *sp = &r->spool[which];
	size_t at;

	if (!sp->len && !sp->lost && !sp->err)
		return;
	at = record_open(o->out, tag);
	record_u64(o->out, SPOOL_WHICH, which);
	if (!o->io->live) {
		put_at_rest(o, r, which);
		record_close(o->out, at);
		return;
	}
	if (sp->away)
		record_u64(o->out, SPOOL_LEN, sp->len);
	for (uint32_t i = 0; i < sp->nblocks; i++)
		put_block(o->out, sp->block[i]);
	keep_put_u64(o->out, SPOOL_LOST, sp->lost);
	if (sp->err)
		record_i64(o->out, SPOOL_ERR, sp->err);
	record_close(o->out, at);
}

void keep_put_outputs(struct keep_out *o, unsigned tag, const struct run *r)
{
	for (unsigned i = 0; i < RUN_NOUTPUTS; i++)
		put_spool(o, tag, r, i);
}

/* ---- reading ---- */

/* A spool that is being read, and whose. */
struct spooling {
	struct run *r;
	struct spool sp;
	unsigned which;
};

struct blocking {
	uint64_t slot;
	uint32_t len;
	bool grows;
	const struct record_field *bytes;
	struct record_field copy;
};

static int block_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct blocking *b = to;

	(void)in;
	switch (f->tag) {
	case BLOCK_SLOT: return record_get(f, 0, UINT32_MAX, &b->slot);
	case BLOCK_LEN: return record_get_u32(f, DEPOT_BLOCK, &b->len);
	case BLOCK_GROWS: return record_get_bool(f, &b->grows);
	case BLOCK_BYTES:
		if (!f->is_bytes || f->len == 0 || f->len > DEPOT_BLOCK)
			return -EBADMSG;
		b->copy = *f;
		b->bytes = &b->copy;
		return 0;
	default: return 0;
	}
}

/* The merged output shares full blocks with the one that came first: see spool_copy(). */
static struct block *shared(const struct spooling *s, uint64_t slot)
{
	const uint32_t i = s->sp.nblocks;

	for (unsigned which = 0; s->which == RUN_BOTH && which < RUN_BOTH; which++) {
		const struct spool *sp = &s->r->spool[which];

		if (i < sp->nblocks && sp->block[i]->state == BLOCK_STORED &&
		    sp->block[i]->slot == slot && sp->block[i]->len == DEPOT_BLOCK)
			return block_ref(sp->block[i]);
	}
	return NULL;
}

static int add_block(struct depot *d, struct spooling *s, const struct blocking *want)
{
	struct block *b = want->bytes ? block_new() : shared(s, want->slot);
	int r = 0;

	if (want->bytes && !b)
		return -ENOMEM;
	if (!b)
		r = depot_stored(d, (uint32_t)want->slot, want->len, &b);
	else if (want->bytes)
		r = (int)MIN(block_append(b, want->bytes->data, want->bytes->len), 0);
	if (r == 0)
		r = spool_put(&s->sp, b);
	if (r < 0) {
		if (b)
			block_unref(d, b);
		return r;
	}
	if (want->bytes && !want->grows)
		depot_put(d, b);
	return 0;
}

static int get_block(struct keep_in *in, struct spooling *s, const struct record_field *f)
{
	struct blocking b = {.slot = UINT64_MAX};
	int r = in->io->live ? keep_inside(in, f, block_field, &b) : -EBADMSG;

	if (r == 0 && !b.bytes && b.slot > UINT32_MAX)
		r = -EBADMSG;
	return r < 0 ? r : add_block(&in->fs->depot, s, &b);
}

static int get_short(struct keep_in *in, struct spooling *s, const struct record_field *f)
{
	if (!f->is_bytes || f->len > SPOOL_MEMORY || s->sp.len || s->sp.err)
		return -EBADMSG;
	spool_append(&s->sp, &in->fs->depot, f->data, f->len);
	return s->sp.err ? -ENOMEM : 0;
}

static int get_err(const struct record_field *f, int *ret)
{
	int64_t v;
	const int r = record_get_i64(f, &v);

	if (r < 0 || v > 0 || v < -4095)
		return -EBADMSG;
	*ret = (int)v;
	return 0;
}

static int spool_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct spooling *s = to;
	int r;

	switch (f->tag) {
	case SPOOL_WHICH: return record_get_u32(f, RUN_NOUTPUTS - 1, &s->which);
	case SPOOL_BYTES: return get_short(in, s, f);
	case SPOOL_BLOCK: return get_block(in, s, f);
	case SPOOL_LOST: return record_get(f, 0, UINT64_MAX / 4, &s->sp.lost);
	case SPOOL_ERR: return get_err(f, &s->sp.err);
	case SPOOL_LEN:
		r = record_get(f, SPOOL_MEMORY + 1, UINT64_MAX / 4, &s->sp.len);
		s->sp.away = r == 0;
		return r;
	default: return 0;
	}
}

int keep_get_output(struct keep_in *in, const struct record_field *f, struct run *r)
{
	struct spooling s = {.r = r, .which = RUN_NOUTPUTS};
	int e = keep_inside(in, f, spool_field, &s);

	if (e == 0 && (s.which == RUN_NOUTPUTS || spool_size(&r->spool[s.which]) ||
		       (s.sp.lost && !s.sp.err) || (s.sp.away && s.sp.nblocks)))
		e = -EBADMSG;
	if (e < 0) {
		spool_fini(&s.sp, &in->fs->depot);
		return e;
	}
	r->spool[s.which] = s.sp;
	return 0;
}

int keep_outputs_back(struct keep_in *in, struct run *r)
{
	int e = 0;

	for (unsigned i = 0; i < RUN_NOUTPUTS && e == 0; i++) {
		const struct keep_output id = {*r->job != '\0',
					       *r->job ? r->id & JOB_NUMBER_MAX : r->number, i};

		if (r->spool[i].away)
			e = in->io->back(in->io->data, &id, &r->spool[i]);
	}
	return e;
}
