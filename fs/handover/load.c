/* SPDX-License-Identifier: Apache-2.0 */
/* Records of an estate, in the order in which they can be read. See handover.h. */
#include "fs/keep/keep.h"
#include "handover.h"
#include "vm/base/estate.h"
#include "vm/base/util.h"

/* What a record refers to comes before it; and a sandbox behind all else that there is of its
 * session, for one that is lost gets none. Those of the kernel's requests are not among them: see
 * devfuse.h. */
static const uint32_t order[] = {
	HANDOVER_PROCESS,
	HANDOVER_MOUNT,
	HANDOVER_STATS,
	HANDOVER_AUDIT,
	HANDOVER_ACCOUNT,
	HANDOVER_SAVED,
	KEEP_TEXT,
	KEEP_BLOCK,
	KEEP_SESSION,
	KEEP_RUN,
	KEEP_JOB,
	KEEP_SCRATCH,
	KEEP_REMOVAL,
	HANDOVER_FILES,
	HANDOVER_NODE,
	HANDOVER_WORKDIR,
	HANDOVER_CALLS,
	HANDOVER_COMMIT,
	HANDOVER_SANDBOX,
	HANDOVER_SLOT,
	HANDOVER_LOCKS,
	HANDOVER_COMPLAINTS,
	HANDOVER_EVENTS,
	HANDOVER_EVENT,
	HANDOVER_GENERATION,
	HANDOVER_HANDLE,
	HANDOVER_TEXT,
};

struct reading {
	handover_record_fn fn;
	void *data;
};

static int on_record(void *data, const struct record *rec, uint64_t sub)
{
	const struct reading *r = data;

	(void)sub; /* what it means is in the fields */
	return r->fn(r->data, rec);
}

int handover_each(const struct estate *e, handover_record_fn fn, void *data)
{
	struct reading reading = {fn, data};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(order); i++)
		r = estate_each(e, order[i], on_record, &reading);
	return r;
}
