/* SPDX-License-Identifier: Apache-2.0 */
/* Where the records of the mount go. See sink.h. */
#include "sink.h"

#include "vm/base/estate.h"

void sink_to_estate(struct handover_sink *sink, struct estate *e, struct fdbag *fds)
{
	*sink = (struct handover_sink){.estate = e, .fds = fds};
}

void sink_fini(struct handover_sink *sink)
{
	buf_clear(&sink->fields);
	buf_clear(&sink->aside);
}

/* Its memory is used again. */
static struct buf *begin(struct buf *fields)
{
	fields->len = 0;
	fields->failed = 0;
	return fields;
}

struct buf *sink_begin(struct handover_sink *sink)
{
	return begin(&sink->fields);
}

struct buf *sink_begin_aside(struct handover_sink *sink)
{
	return begin(&sink->aside);
}

static int end(struct handover_sink *sink, const struct buf *fields, uint32_t kind, uint64_t key,
	       uint64_t sub)
{
	if (fields->failed)
		return fields->failed;
	return estate_put(sink->estate, kind, key, sub, fields->data, fields->len);
}

int sink_end(struct handover_sink *sink, uint32_t kind, uint64_t key, uint64_t sub)
{
	return end(sink, &sink->fields, kind, key, sub);
}

int sink_end_aside(struct handover_sink *sink, uint32_t kind, uint64_t key, uint64_t sub)
{
	return end(sink, &sink->aside, kind, key, sub);
}

int sink_drop(struct handover_sink *sink, uint32_t kind, uint64_t key, uint64_t sub)
{
	return estate_drop(sink->estate, kind, key, sub);
}

void sink_drop_all(struct handover_sink *sink, uint32_t kind, uint64_t key)
{
	if (!sink->compares)
		estate_drop_all(sink->estate, kind, key);
}
