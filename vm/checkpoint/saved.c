/* SPDX-License-Identifier: Apache-2.0 */
/* Saved sandboxes. See saved.h. */
#include "saved.h"

#include <assert.h>
#include <stdlib.h>

#include "point.h"

struct saved *saved_new(struct pack *pack, struct point *point)
{
	struct saved *s = calloc(1, sizeof(*s));

	if (!s) {
		pack_unref(pack);
		point_unref(point);
		return NULL;
	}
	*s = (struct saved){.refs = 1, .pack = pack, .point = point};
	return s;
}

struct saved *saved_ref(struct saved *s)
{
	s->refs++;
	return s;
}

struct saved *saved_unref(struct saved *s)
{
	if (!s)
		return NULL;
	assert(s->refs > 0);
	if (--s->refs == 0) {
		pack_unref(s->pack);
		point_unref(s->point);
		free(s);
	}
	return NULL;
}

struct pack_flaws saved_flaws(const struct saved *s)
{
	return s->pack ? pack_flaws(s->pack) : (struct pack_flaws){0};
}

uint64_t saved_files_bytes(const struct saved *s)
{
	return s->pack ? pack_bytes(s->pack) : 0;
}

uint64_t saved_memory_bytes(const struct saved *s)
{
	return s->point ? s->point->bytes : 0;
}
