/* SPDX-License-Identifier: Apache-2.0 */
/* Which numbers of handles nobody has been told, as records. See handover.h. */
#include <errno.h>

#include "internal.h"

/* Never reuse. */
enum generation_tag {
	TAG_GENERATION = 1, /* that the next one has, or none below it had */
};

#define GENERATIONS 64u /* so many are written down at once */

/* ---- writing ---- */

static int put(uint32_t index, uint32_t generation, struct handover_sink *sink)
{
	record_u64(sink_begin(sink), TAG_GENERATION, generation);
	return sink_end(sink, HANDOVER_GENERATION, index, 0);
}

/*
 * A free index has to be known for the generation that is next. It is enough that none
 * from there on was told to anybody: so it is written once for many, where one file after another
 * is opened and closed. And nobody has heard of one that was taken and free again between two
 * commits. Return: has it to be written?
 */
static bool step(struct handle_slot *slot)
{
	/* Both go round, if ever. */
	if (slot->written && (int32_t)(slot->generation - slot->written) <= 0)
		return false;
	slot->written = slot->generation + GENERATIONS;
	return true;
}

/* One of all: what there has to be in the estate. */
static int put_slot(struct handle_slot *slot, uint32_t index, bool first,
		    struct handover_sink *sink)
{
	if (first && !slot->h && slot->generation != 1)
		(void)step(slot);
	return slot->written ? put(index, slot->written, sink) : 0;
}

int handover_put_generations(struct fs *fs, struct handover_sink *sink)
{
	struct handles *hs = &fs->handles;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < hs->cap; i++)
		r = put_slot(&hs->table[i], i, !fs->record.begun || sink->anew, sink);
	return r;
}

int handover_free_generation(struct fs *fs, struct handover_sink *sink, uint32_t index)
{
	struct handle_slot *slot = &fs->handles.table[index];

	return slot->h || !step(slot) ? 0 : put(index, slot->written, sink);
}

/* ---- reading ---- */

int handover_get_generation(struct fs *fs, uint64_t index, struct record_reader fields)
{
	struct record_field f;
	uint64_t v = 1;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		if (f.tag == TAG_GENERATION && record_get(&f, 0, UINT32_MAX, &v) < 0)
			return -EBADMSG;
	}
	if (r < 0 || index > UINT32_MAX)
		return -EBADMSG;
	return handles_set_generation(&fs->handles, (uint32_t)index, (uint32_t)v);
}
