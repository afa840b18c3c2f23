/* SPDX-License-Identifier: Apache-2.0 */
/* Writes records, and what is beside them, in another thread. See keeper.h. */
#include <errno.h>
#include <string.h>

#include "fs/session/fs.h"
#include "keeper_internal.h"
#include "vm/base/util.h"

struct piecing {
	const struct keeper_item *item;
	const struct keeper_output *o;
};

/* Pieces are read one by one, in order: see store.c. */
static int read_piece(void *data, uint64_t offset, void *to, size_t len)
{
	const struct piecing *of = data;
	const uint64_t i = offset / DEPOT_BLOCK;
	const struct keeper_piece *p = &of->o->piece[i];

	if (i >= of->o->npieces || offset % DEPOT_BLOCK || p->len != len)
		return -EIO;
	if (p->copy) {
		memcpy(to, p->copy, len);
		return 0;
	}
	return depot_fetch(of->item->depot, of->item->depot_key, p->block, 0, to, len);
}

static int read_code(void *data, uint64_t offset, void *to, size_t len)
{
	const struct buf *code = data;

	memcpy(to, code->data + offset, len);
	return 0;
}

/* Is it on the disk as it is? */
static bool is_there(const struct keeper_item *item)
{
	const bool whole = !item->noutputs && !item->ncodes;

	return !item->remove && item->sum == item->was && (whole || item->beside_err);
}

/* What is beside its record. Return: 0 or -errno. */
static int stage_beside(struct store *st, const struct keeper_item *item)
{
	int e = item->ncodes ? store_upgrade(st) : 0;

	for (size_t i = 0; i < item->noutputs && e == 0; i++) {
		struct piecing of = {item, &item->output[i]};

		e = store_put_output(st, &item->of, &item->output[i].name, item->output[i].len,
				     read_piece, &of);
	}
	for (size_t i = 0; i < item->ncodes && e == 0; i++) {
		const struct keeper_code *c = &item->code[i];

		e = store_put_output(st, &item->of, &c->name, c->r->code.len, read_code,
				     &c->r->code);
	}
	return e;
}

/* Once: in a second turn it would take the room of records. */
static void put_beside(struct store *st, struct keeper_item *item)
{
	if (item->beside_done || item->beside_err)
		return;
	item->beside_err = stage_beside(st, item);
	item->beside_done = item->beside_err == 0;
}

/* Return: what is to be written of it; NULL with `err`. */
static const struct buf *record_of(struct keeper_item *item)
{
	if (!item->beside_err)
		return &item->record;
	if (item->bare.len && reserve_is_for(item->beside_err))
		return &item->bare;
	item->err = item->beside_err;
	return NULL;
}

static void stage(struct store *st, struct keeper_item *item)
{
	const struct buf *record;

	if (item->remove) {
		item->err = store_remove(st, item->of.template, item->of.name);
		return;
	}
	item->sum = keeper_sum(&item->record);
	if (is_there(item))
		return;
	put_beside(st, item);
	record = record_of(item);
	if (!record)
		return;
	if (record == &item->bare)
		item->sum = keeper_sum(record);
	if (is_there(item))
		return;
	item->fd = store_stage(st, &item->of, record->data, record->len);
	item->err = MIN(item->fd, 0);
}

/* Has it still to be written, in this turn? */
static bool is_due(const struct keeper_item *item)
{
	return !item->done && item->err == 0 && !item->remove && !is_there(item);
}

/* Those of a template come one after the other, mostly. */
static void sync_names(const struct store *st, struct keeper_item *items)
{
	const char *last = NULL;
	int err = 0;

	for (struct keeper_item *item = items; item; item = item->next) {
		if (!is_due(item))
			continue;
		if (!last || strcmp(last, item->of.template) != 0)
			err = store_sync(st, item->of.template);
		last = item->of.template;
		item->err = err;
	}
}

static void settle(struct keeper_item *items)
{
	for (struct keeper_item *item = items; item; item = item->next)
		if (item->fd >= 0)
			item->err = store_settle(steal_fd(&item->fd));
}

static bool lacks_descriptors(const struct keeper_item *item)
{
	return item->err == -EMFILE || item->err == -ENFILE;
}

static void write_turn(struct store *st, struct keeper_item *items)
{
	struct keeper_item *item;

	for (item = items; item; item = item->next) {
		if (item->done)
			continue;
		stage(st, item);
		if (lacks_descriptors(item)) { /* those before it have some */
			settle(items);
			item->err = item->beside_err = 0;
			stage(st, item);
		}
	}
	settle(items);
	for (item = items; item; item = item->next)
		if (is_due(item))
			item->err = store_publish(st, &item->of);
	sync_names(st, items);
}

/* What was refused for want of room alone has another turn, with the reserve. That is for records: what failed beside one has none,
 * unless there is one without that. Return: is there such? */
static bool has_second_turn(struct store *st, struct keeper_item *items)
{
	int err = 0;

	for (struct keeper_item *item = items; item; item = item->next) {
		item->done = item->remove || !reserve_is_for(item->err) ||
			     (item->beside_err && !item->bare.len);
		if (!item->done)
			err = item->err;
	}
	if (!err || !reserve_release(&st->reserve, st->dir, err))
		return false;
	for (struct keeper_item *item = items; item; item = item->next)
		if (!item->done)
			item->err = 0;
	return true;
}

void keeper_write(struct store *st, struct keeper_item *items)
{
	struct keeper_item *item;

	/* Whoever was there before has one. */
	if (!st->reserve.known)
		reserve_fill(&st->reserve, st->dir);
	for (item = items; item; item = item->next)
		item->done = false; /* a removal comes again */
	write_turn(st, items);
	if (has_second_turn(st, items))
		write_turn(st, items);
	for (item = items; item; item = item->next) {
		if (item->err < 0 || item->remove || is_there(item))
			continue;
		store_trim_outputs(st, &item->of, item->wanted, item->nwanted);
		if (item->replaces)
			store_trim_others(st, &item->of);
	}
	reserve_fill(&st->reserve, st->dir);
}
