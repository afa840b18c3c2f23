/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be written of a session, and outputs that are brought back. See keeper.h. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/session/fs.h"
#include "fs/session/job.h"
#include "fs/session/touch.h"
#include "keeper_internal.h"

struct store_name keeper_name(const struct session *s)
{
	struct store_name of = {.made = s->created};

	snprintf(of.template, sizeof(of.template), "%s", s->t->name);
	snprintf(of.name, sizeof(of.name), "%s", s->name);
	return of;
}

struct store_output keeper_output_name(const struct keep_output *o)
{
	struct store_output name = {0};

	snprintf(name.name, sizeof(name.name), "%c%u.%u", o->of_job ? 'j' : 'r', o->number,
		 o->which);
	return name;
}

/* A number of a run is given again by a daemon that has died before anything named it. */
struct store_output keeper_code_name(const struct keep_output *o, const struct run *r)
{
	struct store_output name;

	snprintf(name.name, sizeof(name.name), "%c%u.code", o->of_job ? 'j' : 'r', o->number);
	snprintf(name.of, sizeof(name.of), "%s", store_id(&r->submitted).text);
	return name;
}

/* ---- outputs and code that are to be written ---- */

/* The record's maker, which is told of long outputs and code. */
struct making {
	struct keeper_item *item;
	struct session *s;
};

static void want(struct keeper_item *item, const struct store_output *name)
{
	struct store_output *wanted =
		reallocarray(item->wanted, item->nwanted + 1, sizeof(*wanted));

	if (!wanted) {
		item->err = -ENOMEM;
		return;
	}
	item->wanted = wanted;
	wanted[item->nwanted++] = *name;
}

/* Blocks on the disk are read by the thread; others change when they get there, so they are copied. */
static int take_pieces(struct keeper_output *o, const struct spool *sp)
{
	o->piece = calloc(sp->nblocks, sizeof(*o->piece));
	if (!o->piece)
		return -ENOMEM;
	for (uint32_t i = 0; i < sp->nblocks; i++) {
		struct block *b = sp->block[i];
		struct keeper_piece *p = &o->piece[i];

		p->len = b->len;
		o->npieces++;
		if (b->state == BLOCK_STORED) {
			p->block = block_ref(b);
			continue;
		}
		p->copy = malloc(b->len);
		if (!p->copy)
			return -ENOMEM;
		memcpy(p->copy, b->data, b->len);
	}
	return 0;
}

static bool add_output(struct keeper_item *item, const struct keep_output *id,
		       const struct spool *sp)
{
	struct keeper_output *more =
		reallocarray(item->output, item->noutputs + 1, sizeof(*item->output));

	if (!more)
		return false;
	item->output = more;
	more += item->noutputs++;
	*more = (struct keeper_output){.name = keeper_output_name(id), .id = *id, .len = sp->len};
	item->bytes += (size_t)sp->len;
	return take_pieces(more, sp) == 0;
}

static bool on_away(void *data, const struct keep_output *id, const struct spool *sp)
{
	const struct making *m = data;
	const struct store_output name = keeper_output_name(id);

	want(m->item, &name);
	if (!sp->away && !sp->kept && !add_output(m->item, id, sp))
		m->item->err = -ENOMEM;
	return true;
}

static bool on_code_away(void *data, const struct keep_output *id, struct run *r)
{
	const struct making *m = data;
	struct keeper_item *item = m->item;
	const struct store_output name = keeper_code_name(id, r);
	struct keeper_code *more;

	want(item, &name);
	if (r->code_kept)
		return true;
	more = reallocarray(item->code, item->ncodes + 1, sizeof(*more));
	if (!more) {
		item->err = -ENOMEM;
		return true;
	}
	item->code = more;
	more[item->ncodes++] = (struct keeper_code){name, run_ref(r)};
	item->bytes += r->code.len;
	if (!item->s)
		item->s = session_ref(m->s);
	return true;
}

const char *keeper_saved_name(void *data, const struct saved *saved)
{
	(void)data;
	return saved_id(saved);
}

uint64_t keeper_sum(const struct buf *record)
{
	uint64_t sum =
		0xcbf29ce484222325u; /* FNV-1a: nobody has to be deceived, it is only to save writes */

	for (size_t i = 0; i < record->len; i++)
		sum = (sum ^ (unsigned char)record->data[i]) * 0x100000001b3u;
	return sum ? sum : 1;
}

int keeper_read(const struct keeper *k, const char *template, const char *name, struct buf *text,
		struct record *ret)
{
	struct record_reader r;
	const int e = store_read(&k->store, template, name, text);

	if (e < 0)
		return e;
	r = record_reader(text->data, text->len);
	return record_next(&r, ret) > 0 ? 0 : -EBADMSG;
}

static bool is_kept(void *data, const struct keep_output *id, const struct spool *sp)
{
	(void)data;
	(void)id;
	return sp->away || sp->kept;
}

/* The bare one names the files of all: who reads it says which are not there. */
static bool is_all_code_away(void *data, const struct keep_output *id, struct run *r)
{
	(void)data;
	(void)id;
	(void)r;
	return true;
}

/* With what is beside it a full disk has no room for it; so there is one without that, if there can be. */
static void put_bare(struct keeper_item *item, struct session *s)
{
	const struct keep_io io = {
		.away = is_kept, .code_away = is_all_code_away, .name = keeper_saved_name};

	if (keep_put(&item->bare, s, &io) < 0)
		buf_clear(&item->bare);
}

struct keeper_item *keeper_item_new(struct keeper *k, struct session *s, int *ret_err)
{
	struct keeper_item *item = calloc(1, sizeof(*item));
	struct making m = {item, s};
	const struct keep_io io = {
		.data = &m, .away = on_away, .code_away = on_code_away, .name = keeper_saved_name};
	int r;

	*ret_err = -ENOMEM;
	if (!item)
		return NULL;
	item->of = keeper_name(s);
	item->fd = -1;
	item->slot = s->slot;
	item->generation = s->generation;
	item->depot = k->fs->depot.fd;
	item->depot_key = k->fs->depot.key;
	r = keep_put(&item->record, s, &io);
	if (r == 0 && item->err == 0 && (item->noutputs || item->ncodes) &&
	    (s->on_disk.err || k->flushed || k->store.reserve.lacks))
		put_bare(item, s);
	if (r < 0 || item->err < 0) {
		*ret_err = r < 0 ? r : item->err;
		keeper_item_free(k, item);
		return NULL;
	}
	*ret_err = 0;
	item->was = s->on_disk.sum;
	item->bytes += item->record.len;
	return item;
}

void keeper_item_free(struct keeper *k, struct keeper_item *item)
{
	for (size_t i = 0; i < item->noutputs; i++) {
		struct keeper_output *o = &item->output[i];

		for (uint32_t j = 0; j < o->npieces; j++) {
			if (o->piece[j].block)
				block_unref(&k->fs->depot, o->piece[j].block);
			free(o->piece[j].copy);
		}
		free(o->piece);
	}
	for (size_t i = 0; i < item->ncodes; i++)
		run_unref(item->code[i].r);
	if (item->s)
		session_unref(item->s);
	if (item->remove)
		keeper_removed(k, item);
	free(item->code);
	free(item->output);
	free(item->wanted);
	buf_clear(&item->record);
	buf_clear(&item->bare);
	free(item);
}

/* ---- afterwards ---- */

static struct run *run_of(struct session *s, const struct keep_output *id)
{
	struct job *j = id->of_job ? job_by_number(s, id->number) : NULL;

	if (id->of_job)
		return j ? j->front.latest : NULL;
	if (s->front.latest && s->front.latest->number == id->number)
		return s->front.latest;
	return session_run(s, id->number);
}

void keeper_item_kept(const struct keeper_item *item, struct session *s)
{
	s->on_disk.sum = item->sum;
	s->on_disk.bytes = item->record.len;
	for (size_t i = 0; i < item->noutputs; i++) {
		struct run *r = run_of(s, &item->output[i].id);

		if (!r || r->spool[item->output[i].id.which].len != item->output[i].len)
			continue;
		r->spool[item->output[i].id.which].kept = true;
		touch_run(r);
	}
	for (size_t i = 0; i < item->ncodes; i++) {
		item->code[i].r->code_kept = true;
		touch_run(item->code[i].r);
	}
}

/* ---- outputs that are brought back ---- */

struct bringing {
	struct keeper *k;
	uv_work_t work;
	struct session *s; /* references */
	struct run *r;
	unsigned which;
	struct store_name of;
	struct store_output name;
	uint64_t len;
	struct block **block;
	uint32_t nblocks, cap;
	int err;
};

static int put_piece(void *data, const void *bytes, size_t len)
{
	struct bringing *b = data;
	struct block *block = b->nblocks < b->cap ? block_new() : NULL;

	if (!block)
		return -ENOMEM;
	b->block[b->nblocks++] = block;
	return block_append(block, bytes, len) == (ssize_t)len ? 0 : -ENOMEM;
}

static void on_bring(uv_work_t *work)
{
	struct bringing *b = container_of(work, struct bringing, work);

	b->err = store_get_output(&b->k->store, &b->of, &b->name, b->len, put_piece, b);
}

/* The blocks become the spool's, and go to the depot's file as those of a run that has just ended. */
static int attach(struct bringing *b, struct depot *d)
{
	struct spool *sp = &b->r->spool[b->which], there = {.lost = sp->lost, .err = sp->err};
	uint32_t n = 0;
	int e = 0;

	for (; n < b->nblocks && e == 0; n++)
		e = spool_put(&there, b->block[n]);
	if (e < 0) {
		for (uint32_t i = n - 1; i < b->nblocks; i++)
			block_unref(d, b->block[i]);
		spool_fini(&there, d);
		return e;
	}
	there.kept = true;
	touch_run(b->r);
	*sp = there;
	for (uint32_t i = 0; i < sp->nblocks; i++)
		depot_put(d, sp->block[i]);
	return 0;
}

static void on_brought(uv_work_t *work, int status)
{
	struct bringing *b = container_of(work, struct bringing, work);
	struct keeper *k = b->k;
	struct fs *fs = k->fs;
	int err = status < 0 ? status : b->err;

	k->bringing = false;
	if (err == 0 && b->r->spool[b->which].away)
		err = attach(b, &fs->depot);
	else
		for (uint32_t i = 0; i < b->nblocks; i++)
			block_unref(&fs->depot, b->block[i]);
	free(b->block);
	run_unref(b->r);
	session_unref(b->s);
	free(b);
	fetch_brought(&fs->fetch, err);
}

void keeper_bring(struct session *s, struct run *r, unsigned which)
{
	struct keeper *k = s->fs->keeper;
	const struct keep_output id = {*r->job != '\0',
				       *r->job ? r->id & JOB_NUMBER_MAX : r->number, which};
	struct bringing *b = calloc(1, sizeof(*b));
	const uint64_t n = (r->spool[which].len + DEPOT_BLOCK - 1) / DEPOT_BLOCK;
	int e;

	assert(!k->bringing);
	if (b)
		b->block = calloc(n, sizeof(struct block *));
	if (!b || !b->block) {
		free(b);
		fetch_brought(&s->fs->fetch, -ENOMEM);
		return;
	}
	b->k = k;
	b->s = session_ref(s);
	b->r = run_ref(r);
	b->which = which;
	b->of = keeper_name(s);
	b->name = keeper_output_name(&id);
	b->len = r->spool[which].len;
	b->cap = (uint32_t)n;
	k->bringing = true;
	e = uv_queue_work(s->fs->loop, &b->work, on_bring, on_brought);
	assert(e == 0);
	(void)e;
}
