/* SPDX-License-Identifier: Apache-2.0 */
/* What is under way, for a host that goes on where one ended. */
#include "resume.h"

#include <errno.h>

#include "agent.h"

/*
 * RESUMED goes out in the order of OUTPUTs, EXITs and the answers about files, so these are told as of now, when it is
 * queued. READY, FROZEN and STDIN_CREDIT may overtake it: what of them is said to be due here may have come before.
 */

/* Whether an interpreter could take a run. */
static bool has_interp(const struct agent *a)
{
	const enum interp_state state = a->spares.active->state;

	return state == INTERP_IDLE || state == INTERP_BUSY;
}

static uint32_t flags_of(const struct agent *a)
{
	uint32_t f = 0;

	if (a->ready.due || a->warm.due)
		f |= PROTO_RESUMED_READY;
	if (a->frozen.due)
		f |= PROTO_RESUMED_FROZEN;
	if (a->freezer.state != FREEZER_THAWED)
		f |= PROTO_RESUMED_STILL;
	if (watch_is_on(&a->files.watch))
		f |= PROTO_RESUMED_WATCHED;
	if (a->packer.active || a->unpacker.state != UNPACK_NONE)
		f |= PROTO_RESUMED_PACKING;
	if (has_interp(a))
		f |= PROTO_RESUMED_INTERP;
	return f;
}

static void add(struct proto_resumed *r, uint32_t id, const struct output *o,
		const struct stdin_pipe *in, bool ended)
{
	r->exec[r->nexecs++] = (struct proto_resumed_exec){
		.id = id,
		.flags = (ended ? PROTO_RESUMED_ENDED : 0) |
			 (!ended && in->active && !in->eof ? PROTO_RESUMED_STDIN : 0),
		.sequence = o->sequence,
		.credit = o->credit,
		.granted = in->active ? in->granted : 0,
	};
}

int resume_answer(struct agent *a, uint32_t id)
{
	struct proto_resumed r = {.version = PROTO_VERSION,
				  .generation = a->conn.generation,
				  .number = a->conn.from.number,
				  .flags = flags_of(a)};
	struct frame *f = frame_new(PROTO_RESUMED, id, 32 + sizeof(r));
	const struct job *j;

	if (!f)
		return -ENOMEM;
	if (a->run.state != RUN_NONE && !a->run.abandoned)
		add(&r, a->run.id, &a->run.output, &a->run.in, false);
	TAILQ_FOREACH(j, &a->jobs.list, link) {
		if (!j->mute)
			add(&r, j->id, &j->output, &j->in,
			    j->state == JOB_ENDED || j->state == JOB_CLEARING);
	}
	proto_resumed_pack(&f->out, &r);
	conn_send(&a->conn, frame_trim(f));
	return 0;
}
