/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of a struct as fields of a record. See record_table.h. */
#include "record_table.h"

#include <errno.h>
#include <string.h>

static uint64_t load(const void *from, size_t size)
{
	uint64_t v64;
	uint32_t v32;
	uint16_t v16;
	bool b;

	switch (size) {
	case sizeof(v64): memcpy(&v64, from, size); return v64;
	case sizeof(v32): memcpy(&v32, from, size); return v32;
	case sizeof(v16): memcpy(&v16, from, size); return v16;
	default: memcpy(&b, from, sizeof(b)); return b;
	}
}

static void store(void *to, size_t size, uint64_t v)
{
	const uint32_t v32 = (uint32_t)v;
	const uint16_t v16 = (uint16_t)v;
	const bool b = v;

	switch (size) {
	case sizeof(v): memcpy(to, &v, size); break;
	case sizeof(v32): memcpy(to, &v32, size); break;
	case sizeof(v16): memcpy(to, &v16, size); break;
	default: memcpy(to, &b, sizeof(b));
	}
}

void record_put_members(struct buf *out, const void *object, const struct record_member *table,
			size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const uint64_t v = load((const char *)object + table[i].at, table[i].size);

		if (v)
			record_u64(out, table[i].tag, v);
	}
}

int record_take_member(const struct record_field *f, void *object,
		       const struct record_member *table, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct record_member *m = &table[i];
		const uint64_t most = m->size == 1   ? 1
				      : m->size == 2 ? UINT16_MAX
				      : m->size == 4 ? UINT32_MAX
						     : UINT64_MAX;
		uint64_t v;

		if (m->tag != f->tag)
			continue;
		if (record_get(f, 0, m->max < most ? m->max : most, &v) < 0)
			return -EBADMSG;
		store((char *)object + m->at, m->size, v);
		return 1;
	}
	return 0;
}
