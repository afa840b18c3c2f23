/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what was committed to an estate, in the process that goes on with it. See estate.h. */
#include <errno.h>
#include <string.h>

#include "estate_internal.h"
#include "util.h"

/* Takes away what this name had. Return: 0, or -EBADMSG: there was nothing. */
static int take_away(struct estate *e, struct estate_item *it, const struct estate_entry *entry)
{
	if (!it || it->serial != entry->serial || entry->len)
		return -EBADMSG;
	estate_item_free(e, it);
	return 0;
}

/* A serial is of one name, from its first entry on until it is dropped. */
static int take(struct estate *e, const struct estate_entry *entry, uint64_t at)
{
	const uint32_t kind = entry->kind & ~ESTATE_DROPPED;
	struct estate_item *it = estate_find(e, kind, entry->key, entry->sub);

	if (kind == 0 || entry->serial == 0)
		return -EBADMSG;
	e->serial = MAX(e->serial, entry->serial);
	if (entry->kind & ESTATE_DROPPED)
		return take_away(e, it, entry);
	if (it && it->serial != entry->serial)
		return -EBADMSG;
	if (!it)
		it = estate_item_new(e, kind, entry->key, entry->sub);
	if (!it)
		return -ENOMEM;
	it->serial = entry->serial;
	it->at[e->active] = at;
	estate_item_count(e, it, entry->len);
	return 0;
}

int estate_load(struct estate *e)
{
	uint64_t left;
	int r = 0;

	for (uint64_t at = 0; r == 0 && at < e->end; at = e->end - left) {
		struct estate_entry entry;

		left = e->end - at;
		if (left < sizeof(entry))
			return -EBADMSG;
		entry = *estate_entry_at(e, e->active, at);
		if (entry.len > RECORD_MAX || estate_entry_size(entry.len) > left)
			return -EBADMSG;
		left -= estate_entry_size(entry.len);
		r = take(e, &entry, at);
		estate_gets_on(e);
	}
	return r < 0 ? r : estate_items_sort(e);
}
