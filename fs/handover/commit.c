/* SPDX-License-Identifier: Apache-2.0 */
/* What the mount leaves in an estate: all of it, then what a turn has changed. See handover.h. */
#include "internal.h"
#include "vm/base/estate.h"

#define FIELDS_KEPT (64u << 10) /* bytes of memory that the next turn finds */

/* ---- all of it, at the beginning ---- */

/* Also of bytes, for who has them has named them. */
static bool is_whole(uint32_t kind)
{
	return kind == KEEP_TEXT || kind == HANDOVER_BYTES || handover_is_whole(kind);
}

/* What the daemon before this one had, and nobody has now, goes. */
static int commit_all(struct fs *fs, struct estate *e, struct fdbag *fds)
{
	struct handover_sink sink;
	int r, swept;

	handover_watch_saved(fs);
	sink_to_estate(&sink, e, fds);
	sink.all = true;
	estate_sweep_begin(e);
	r = handover_put_all(fs, &sink);
	swept = estate_sweep_end(e, is_whole);
	sink_fini(&sink);
	r = r < 0 ? r : swept;
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
