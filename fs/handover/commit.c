/* SPDX-License-Identifier: Apache-2.0 */
/* What the mount leaves in an estate: all of it, then what a turn has changed. See handover.h. */
#include <string.h>

#include "internal.h"
#include "vm/base/estate.h"

#define FIELDS_KEPT (64u << 10) /* bytes of memory that the next turn finds */

/* ---- all of it, at the beginning ---- */

struct leftover {
	uint32_t kind;
	uint64_t key, sub;
};

struct leftovers {
	struct estate_compare c; /* first */
	struct buf names;	 /* of struct leftover */
};

static void on_leftover(void *data, enum estate_difference what, uint32_t kind, uint64_t key,
			uint64_t sub)
{
	struct leftovers *lo = data;
	const struct leftover one = {kind, key, sub};

	if (what == ESTATE_LEFT)
		(void)buf_append(&lo->names, &one, sizeof(one));
}

/* Also of bytes, for who has them has named them. */
static bool is_whole(void *data, uint32_t kind)
{
	(void)data;
	return kind == KEEP_TEXT || kind == HANDOVER_BYTES || handover_is_whole(kind);
}

/* What the daemon before this one had, and nobody has now. */
static int drop_leftovers(struct fs *fs, struct estate *e, struct fdbag *fds)
{
	struct leftovers lo = {0};
	int r;

	lo.c = (struct estate_compare){.differs = on_leftover, .is_whole = is_whole, .data = &lo};
	r = handover_compare(fs, e, fds, &lo.c);
	if (r == 0)
		r = lo.names.failed;
	for (size_t at = 0; r == 0 && at < lo.names.len; at += sizeof(struct leftover)) {
		struct leftover one;

		memcpy(&one, lo.names.data + at, sizeof(one));
		r = estate_drop(e, one.kind, one.key, one.sub);
	}
	buf_clear(&lo.names);
	return r;
}

static int commit_all(struct fs *fs, struct estate *e, struct fdbag *fds)
{
	struct handover_sink sink;
	int r;

	handover_watch_saved(fs);
	sink_to_estate(&sink, e, fds);
	r = handover_put_all(fs, &sink);
	sink_fini(&sink);
	if (r == 0)
		r = drop_leftovers(fs, e, fds);
	handover_settle_sessions(fs);
	handover_settle_whole(fs);
	handover_settle_handles(fs);
	handover_settle_files(fs);
	fs->record.begun = r == 0;
	return r;
}

/* ---- what has changed ---- */

static int commit_mount(struct fs *fs, struct handover_sink *sink)
{
	int r = handover_commit_whole(fs, sink);

	if (r == 0)
		r = handover_commit_handles(fs, sink);
	return r == 0 ? handover_commit_files(fs, sink) : r;
}

int handover_commit(struct fs *fs, struct estate *e, struct fdbag *fds)
{
	struct handover_sink sink;
	int r;

	if (!fs->record.begun)
		return commit_all(fs, e, fds);
	sink_to_estate(&sink, e, fds);
	sink.fields = fs->record.fields;
	r = handover_commit_sessions(fs, &sink);
	if (r == 0)
		r = commit_mount(fs, &sink);
	fs->record.fields = sink.fields;
	sink.fields = (struct buf){0};
	if (fs->record.fields.cap > FIELDS_KEPT)
		buf_clear(&fs->record.fields);
	sink_fini(&sink);
	return r;
}
