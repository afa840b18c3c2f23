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
	SPOOL_BYTES,  /* all of a short one */
	SPOOL_BLOCK,  /* in version 1 */
	SPOOL_BLOCKS, /* live: the id of those that there are, beside */
	SPOOL_SHARED, /* ... the first ones of another output, */
	SPOOL_OF,     /* ... which */
	SPOOL_SIZE,   /* ... bytes of all */
	SPOOL_UNKEPT, /* at rest: it was all there when this was written, but not on the disk yet */
	SPOOL_KEPT,   /* live, of one that is here: it is in its file as well */
};

/* At rest: short ones are here, long ones elsewhere, and what grows is kept as far as it is short. */
static void put_at_rest(struct keep_out *o, const struct run *r, unsigned which)
{
	const struct spool *sp = &r->spool[which];
	const struct keep_output id = keep_output_of(r, which);
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
		keep_put_u64(o->out, SPOOL_UNKEPT, run_ended(r) && !sp->err);
	}
}

/* Which output of the run is it that this one has its first blocks of? See spool_copy(). */
static unsigned shared_with(const struct run *r, const struct spool *sp)
{
	unsigned which = 0;

	while (which < RUN_BOTH &&
	       (!r->spool[which].nblocks || r->spool[which].block[0] != sp->block[0]))
		which++;
	return which;
}

static void put_live(struct keep_out *o, const struct run *r, struct spool *sp)
{
	const uint64_t id = sp->away ? 0 : o->io->blocks(o->io->data, r, sp);

	if (sp->away)
		record_u64(o->out, SPOOL_LEN, sp->len);
	else if (!id && sp->nblocks)
		record_bytes(o->out, SPOOL_BYTES, sp->block[0]->data, sp->block[0]->len);
	if (id) {
		record_u64(o->out, SPOOL_BLOCKS, id);
		record_u64(o->out, SPOOL_SIZE, sp->len);
	}
	if (id && sp->nshared) {
		record_u64(o->out, SPOOL_OF, shared_with(r, sp));
		record_u64(o->out, SPOOL_SHARED, sp->nshared);
	}
	keep_put_u64(o->out, SPOOL_LOST, sp->lost);
	if (sp->err)
		record_i64(o->out, SPOOL_ERR, sp->err);
	/* Else the next daemon writes it once more, and where there is no room for that, says that it is lost. */
	keep_put_u64(o->out, SPOOL_KEPT, sp->kept && !sp->away);
}

static void put_spool(struct keep_out *o, unsigned tag, struct run *r, unsigned which)
{
	const struct spool *sp = &r->spool[which];
	size_t at;

	if (!sp->len && !sp->lost && !sp->err)
		return;
	at = record_open(o->out, tag);
	record_u64(o->out, SPOOL_WHICH, which);
	if (o->io->live)
		put_live(o, r, &r->spool[which]);
	else
		put_at_rest(o, r, which);
	record_close(o->out, at);
}

void keep_put_outputs(struct keep_out *o, unsigned tag, struct run *r)
{
	for (unsigned i = 0; i < RUN_NOUTPUTS; i++)
		put_spool(o, tag, r, i);
}

/* ---- reading ---- */

/* A spool that is being read, and whose. */
struct spooling {
	struct run *r;
	struct spool sp;
	unsigned which, of;
	uint64_t size;
	bool unkept;
};

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
	case SPOOL_BLOCKS: return record_get(f, 1, UINT64_MAX / 2, &s->sp.id);
	case SPOOL_OF: return record_get_u32(f, RUN_BOTH - 1, &s->of);
	case SPOOL_SHARED: return record_get_u32(f, UINT32_MAX, &s->sp.nshared);
	case SPOOL_SIZE: return record_get(f, 1, UINT64_MAX / 4, &s->size);
	case SPOOL_LOST: return record_get(f, 0, UINT64_MAX / 4, &s->sp.lost);
	case SPOOL_ERR: return get_err(f, &s->sp.err);
	case SPOOL_UNKEPT: return record_get_bool(f, &s->unkept);
	case SPOOL_KEPT: return in->io->live ? record_get_bool(f, &s->sp.kept) : 0;
	case SPOOL_LEN:
		r = record_get(f, SPOOL_MEMORY + 1, UINT64_MAX / 4, &s->sp.len);
		s->sp.away = r == 0;
		return r;
	default: return 0;
	}
}

/* The blocks that it has of another one, and then its own. */
static int get_blocks(struct keep_in *in, struct spooling *s)
{
	const struct spool *of = &s->r->spool[s->of];
	int e = 0;

	if (!in->io->live || s->sp.nblocks || s->sp.away)
		return -EBADMSG;
	if (s->sp.nshared && (s->which != RUN_BOTH || s->sp.nshared > of->nblocks))
		return -EBADMSG;
	for (uint32_t i = 0; e == 0 && i < s->sp.nshared; i++) {
		if (of->block[i]->len != DEPOT_BLOCK)
			return -EBADMSG;
		e = spool_put(&s->sp, block_ref(of->block[i]));
		if (e < 0)
			block_unref(&in->fs->depot, of->block[i]);
	}
	if (e == 0)
		e = in->io->blocks_back(in->io->data, &s->sp);
	return e == 0 && s->sp.len != s->size ? -EBADMSG : e;
}

int keep_get_output(struct keep_in *in, const struct record_field *f, struct run *r)
{
	struct spooling s = {.r = r, .which = RUN_NOUTPUTS};
	int e = keep_inside(in, f, spool_field, &s);

	if (e == 0 && s.sp.id)
		e = get_blocks(in, &s);
	if (e == 0 && (s.which == RUN_NOUTPUTS || spool_size(&r->spool[s.which]) ||
		       (s.sp.lost && !s.sp.err) || (s.sp.away && s.sp.nblocks)))
		e = -EBADMSG;
	if (e < 0) {
		spool_fini(&s.sp, &in->fs->depot);
		return e;
	}
	r->spool[s.which] = s.sp;
	in->unkept = in->unkept || s.unkept;
	return 0;
}

void keep_tell_unkept(struct keep_in *in, struct run *r)
{
	struct problem p = *problem_kept(&r->problem), why;

	problem_set(
		&why, PROBLEM_OUTPUT_LOST,
		"Make room on the disk of state_dir, or mend it, and run it again.",
		"xsbxfs ended before all output of %s was written to state_dir; its files end with "
		"an error where it is missing",
		run_words(r).text);
	problem_also(&p, &why);
	problem_keep(&r->problem, &p);
	keep_miss(&in->missing, &why);
}

int keep_outputs_back(struct keep_in *in, struct run *r)
{
	int e = 0;

	for (unsigned i = 0; i < RUN_NOUTPUTS && e == 0; i++) {
		const struct keep_output id = keep_output_of(r, i);

		if (r->spool[i].away)
			e = in->io->back(in->io->data, &id, &r->spool[i]);
	}
	return e;
}
