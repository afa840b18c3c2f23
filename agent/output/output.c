/* SPDX-License-Identifier: Apache-2.0 */
/* Both outputs of a program: what belongs to both of them. How they are read is in stream.c, journal.c and records.c. */
#include "output.h"

#include <errno.h>

#include "agent/core/conn.h"
#include "agent/core/log.h"
#include "agent/core/util.h"
#include "apart.h"
#include "drain.h"
#include "journal.h"
#include "records.h"
#include "stream.h"

static void on_tick(struct loop_timer *t)
{
	struct output *o = container_of(t, struct output, tick);

	records_tick(&o->records);
	journal_tick(&o->journal);
	stream_tick(&o->out[0]);
	stream_tick(&o->out[1]);
}

void output_init(struct output *o)
{
	static const enum proto_stream which[2] = {PROTO_STDOUT, PROTO_STDERR};

	for (int i = 0; i < 2; i++) {
		o->out[i].output = o;
		o->out[i].which = which[i];
		o->out[i].src.fd = o->out[i].spare[0] = o->out[i].spare[1] = -1;
		o->out[i].writer = -1;
	}
	records_init(&o->records, o, stream_put, stream_catch_up);
	journal_init(&o->journal, o);
	o->tick.fire = on_tick;
}

void output_prepare(struct output *o, bool ordered)
{
	(void)stream_prepare(&o->out[0]);
	(void)stream_prepare(&o->out[1]);
	if (ordered)
		(void)records_prepare(&o->records);
}

void output_begin(struct output *o, uint32_t id, const uint64_t limit[2], uint32_t credit)
{
	for (int i = 0; i < 2; i++) {
		o->out[i].limit_left = limit[i];
		o->out[i].dropped = 0;
	}
	o->id = id;
	o->credit = credit;
	o->sequence = 0;
	o->wrote = o->owed = NULL;
}

int output_open(struct output *o, uint32_t id, const uint64_t limit[2], uint32_t credit,
		int ret_fds[2])
{
	output_begin(o, id, limit, credit);
	for (int i = 0; i < 2; i++) {
		int r = stream_open(&o->out[i], limit[i], &ret_fds[i]);

		if (r < 0)
			return r;
	}
	apart_even_out(o);
	return 0;
}

void output_close(struct output *o)
{
	for (int i = 0; i < 2; i++) {
		close_fd(&o->out[i].src.fd);
		close_fd(&o->out[i].writer);
	}
}

int output_ordered(struct output *o)
{
	return records_open(&o->records);
}

int output_watch(struct output *o)
{
	int r;

	records_watch(&o->records);
	if (apart_is_on(o))
		journal_watch(&o->journal);
	r = stream_watch(&o->out[0]);
	return r < 0 ? r : stream_watch(&o->out[1]);
}

void output_settle(struct output *o)
{
	loop_disarm(o->loop, &o->tick);
	records_settle(&o->records);
	journal_settle(&o->journal);
	for (int i = 0; i < 2; i++)
		stream_settle(&o->out[i]);
}

bool output_drain(struct output *o)
{
	const int first = o->owed == &o->out[1];
	bool done;

	/* Records are older than the rest, but for what was read of that before. */
	if (stream_catch_up(o) < 0 || !records_drain(&o->records) || !journal_drain(&o->journal))
		return false;
	/* Both are tried: past its limit one needs no credit. */
	done = stream_drain(&o->out[first]);
	return stream_drain(&o->out[!first]) && done;
}

void output_leave(struct output *o)
{
	for (int i = 0; i < 2; i++) {
		(void)loop_watch(o->loop, &o->out[i].src, 0);
		stream_leave(&o->out[i]);
		drain_add(o->drains, o->out[i].src.fd);
		o->out[i].src.fd = -1;
	}
	(void)loop_watch(o->loop, &o->records.src, 0);
	drain_add(o->drains, o->records.src.fd);
	o->records.src.fd = -1;
	log_trace("all that it has written is on its way, in %u piece%s", o->sequence,
		  o->sequence == 1 ? "" : "s");
}

void output_send_exit(struct output *o, uint8_t full, struct proto_exit *result)
{
	struct frame *f = frame_new(PROTO_EXIT, o->id, 128);

	if (!f) {
		loop_stop(o->loop, -ENOMEM);
		return;
	}
	for (int i = 0; i < 2; i++)
		result->dropped[i] = o->out[i].dropped;
	f->flags = full;
	proto_exit_pack(&f->out, result);
	conn_send(o->conn, f);
}

void output_resume(struct output *o)
{
	if (!records_resume(&o->records))
		return;
	journal_resume(&o->journal);
	stream_resume(&o->out[0]);
	stream_resume(&o->out[1]);
}

void output_fini(struct output *o)
{
	loop_disarm(o->loop, &o->tick);
	for (int i = 0; i < 2; i++) {
		loop_close(o->loop, &o->out[i].src);
		close_fd(&o->out[i].writer);
		close_fd(&o->out[i].spare[0]);
		close_fd(&o->out[i].spare[1]);
	}
	records_fini(&o->records);
	journal_fini(&o->journal);
}
