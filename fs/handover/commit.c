/* SPDX-License-Identifier: Apache-2.0 */
/* What a turn has changed, into the estate. See handover.h. */
#include "internal.h"

int handover_commit(struct fs *fs, struct estate *e, struct fdbag *fds)
{
	struct handover_sink sink;
	int r;

	if (!fs->record.begun)
		return handover_commit_all(fs, e, fds);
	sink_to_estate(&sink, e, fds);
	r = handover_commit_sessions(fs, &sink);
	if (r == 0)
		r = handover_commit_mount(fs, &sink);
	sink_fini(&sink);
	return r < 0 || !fds->failed ? r : -ENOMEM;
}
