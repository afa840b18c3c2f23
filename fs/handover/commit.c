/* SPDX-License-Identifier: Apache-2.0 */
/* What a turn has changed, into the estate. See handover.h. */
#include "internal.h"

#define FIELDS_KEPT (64u << 10) /* bytes of memory that the next turn finds */

int handover_commit(struct fs *fs, struct estate *e, struct fdbag *fds)
{
	struct handover_sink sink;
	int r;

	if (!fs->record.begun)
		return handover_commit_all(fs, e, fds);
	sink_to_estate(&sink, e, fds);
	sink.fields = fs->record.fields;
	r = handover_commit_sessions(fs, &sink);
	if (r == 0)
		r = handover_commit_mount(fs, &sink);
	fs->record.fields = sink.fields;
	sink.fields = (struct buf){0};
	if (fs->record.fields.cap > FIELDS_KEPT)
		buf_clear(&fs->record.fields);
	sink_fini(&sink);
	return r < 0 || !fds->failed ? r : -ENOMEM;
}
