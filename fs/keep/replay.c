/* SPDX-License-Identifier: Apache-2.0 */
/* A session that is a replay: of which run. See keep.h. */
#include <errno.h>
#include <stdlib.h>

#include "fs/session/rerun.h"
#include "internal.h"

/* Never reuse a number. */
enum { REPLAY_OF = 1, REPLAY_NAME, REPLAY_RUN, REPLAY_FILES_ONLY };

void keep_put_replay(struct keep_out *o, unsigned tag)
{
	const struct rerun *rr = o->s->rerun;
	const size_t at = rr ? record_open(o->out, tag) : 0;

	if (!rr)
		return;
	if (o->io->live) {
		record_u64(o->out, REPLAY_OF, (uint64_t)rr->slot << 32 | rr->generation);
		record_str(o->out, REPLAY_NAME, rr->name);
		record_u64(o->out, REPLAY_RUN, rr->number);
		keep_put_u64(o->out, REPLAY_FILES_ONLY, rr->files_only);
	}
	record_close(o->out, at);
}

static int replay_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct rerun *rr = to;
	uint64_t of;
	int e;

	(void)in;
	switch (f->tag) {
	case REPLAY_OF:
		e = record_get(f, 0, UINT64_MAX, &of);
		if (e == 0) {
			rr->slot = (unsigned)(of >> 32);
			rr->generation = (unsigned)of;
		}
		return e;
	case REPLAY_NAME: return record_get_str(f, rr->name, sizeof(rr->name));
	case REPLAY_RUN: return record_get_u32(f, SANDBOX_JOB_ID - 1, &rr->number);
	case REPLAY_FILES_ONLY: return record_get_bool(f, &rr->files_only);
	default: return 0;
	}
}

int keep_get_replay(struct keep_in *in, const struct record_field *f)
{
	if (!in->s->rerun)
		in->s->rerun = calloc(1, sizeof(*in->s->rerun));
	return in->s->rerun ? keep_inside(in, f, replay_field, in->s->rerun) : -ENOMEM;
}
