/* SPDX-License-Identifier: Apache-2.0 */
/* What is removed, and on the disk still: it must not come back, whoever goes on when this daemon has died. See keeper.h. */
#include <errno.h>
#include <stdlib.h>

#include "fs/session/fs.h"
#include "keeper_internal.h"
#include "vm/base/util.h"

enum { REMOVAL_TEMPLATE = 1, REMOVAL_NAME, REMOVAL_MADE }; /* never reuse */

int keeper_remove(struct keeper *k, const struct store_name *of, uint64_t id)
{
	struct keeper_item *item = calloc(1, sizeof(*item));

	if (!item)
		return -ENOMEM;
	item->of = *of;
	item->remove = true;
	item->fd = -1;
	item->id = id;
	*k->removals_end = item;
	k->removals_end = &item->next;
	TAILQ_INSERT_TAIL(&k->removing, item, removal);
	touched_add(&k->fs->touched, TOUCHED_REMOVAL, &item->touch);
	return 0;
}

void keeper_removed(struct keeper *k, struct keeper_item *item)
{
	TAILQ_REMOVE(&k->removing, item, removal);
	touched_take(&k->fs->touched, TOUCHED_REMOVAL, &item->touch);
	if (item->id)
		touched_add_gone(&k->fs->touched, TOUCHED_REMOVAL, item->id, 0);
}

/* ---- as records ---- */

static struct keeper_item *item_of(struct touch *removal)
{
	return container_of(removal, struct keeper_item, touch);
}

struct touch *keeper_next_removal(const struct fs *fs, struct touch *last)
{
	struct keeper_item *item =
		last ? TAILQ_NEXT(item_of(last), removal) : TAILQ_FIRST(&fs->keeper->removing);

	return item ? &item->touch : NULL;
}

int keeper_put_removal(struct fs *fs, struct touch *removal, struct buf *out, uint64_t *ret_id)
{
	struct keeper_item *item = item_of(removal);

	*ret_id = touched_id(&fs->touched, &item->id);
	record_str(out, REMOVAL_TEMPLATE, item->of.template);
	record_str(out, REMOVAL_NAME, item->of.name);
	record_time(out, REMOVAL_MADE, &item->of.made);
	return out->failed;
}

static int get_field(struct store_name *of, const struct record_field *f)
{
	switch (f->tag) {
	case REMOVAL_TEMPLATE: return record_get_str(f, of->template, sizeof(of->template));
	case REMOVAL_NAME: return record_get_str(f, of->name, sizeof(of->name));
	case REMOVAL_MADE: return record_get_time(f, &of->made);
	default: return 0;
	}
}

/* It becomes the name of a file. */
int keeper_get_removal(struct fs *fs, uint64_t id, struct record_reader fields)
{
	struct store_name of = {0};
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		r = get_field(&of, &f);
		if (r < 0)
			return r;
	}
	if (r < 0 || id == 0 || id > UINT64_MAX / 2 || !plain_name_ok(of.template) ||
	    !plain_name_ok(of.name))
		return -EBADMSG;
	touched_has_id(&fs->touched, id);
	return keeper_remove(fs->keeper, &of, id);
}
