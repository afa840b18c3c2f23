/* SPDX-License-Identifier: Apache-2.0 */
/* Building a template's snapshot: a machine boots, is exercised, and is saved. */
#include <string.h>

#include "vm/base/log.h"
#include "pool.h"
#include "vm/base/problem.h"
#include "vm/host/tsc.h"

/*
 * Theory of operation
 * -------------------
 * The machine is a guest that nobody gets to use: it boots with memory that is kept,
 * is set up as the template says, exercises its interpreter, and is left alone for a moment, so that
 * nothing is on its way between it and us. Then QEMU writes down the state of the devices, and the
 * machine is killed; what it leaves, memory and state, is sealed and is the snapshot. It can be
 * cloned from that moment on; putting it on the disk happens behind that.
 *
 * Until it is renamed there nothing has a name: whoever is killed in between leaves nothing.
 */

static void finished(struct template *t, uint64_t took_ms)
{
	int r = snapshot_seal(&t->recording);

	if (r < 0) {
		template_build_failed(t, strerror(-r));
		return;
	}
	t->snapshot = t->recording;
	snapshot_init(&t->recording);
	t->state = TEMPLATE_READY;
	t->saved = t->save_failed = t->fetched = false;
	t->clone_failures = 0;
	t->problem[0] = '\0';
	t->built_ms = took_ms;
	log_info("snapshot of %s (%u MiB) made: %llu MiB after %llu ms", t->spec.image,
		 t->spec.memory_mb, (unsigned long long)(t->snapshot.bytes >> 20),
		 (unsigned long long)took_ms);
	context_event(t->pool->ctx, "snapshot", "%s: made, %llu MiB after %llu ms", t->spec.image,
		      (unsigned long long)(t->snapshot.bytes >> 20), (unsigned long long)took_ms);
	r = template_store(t);
	if (r < 0)
		log_warn("the snapshot of %s can't be kept: %s", t->spec.image, strerror(-r));
}

static void on_saved(void *data)
{
	struct template *t = data;

	t->recorded = true;
}

/* The machine is gone, so nothing writes to its memory any more. */
static void on_closed(void *data, const struct problem *problem)
{
	struct template *t = data;
	struct guest_info info;

	guest_info(t->builder, &info);
	t->builder = NULL;
	admission_release(t->pool->admission, &t->builder_ticket);
	if (t->state == TEMPLATE_BUILDING) {
		t->state = TEMPLATE_NONE;
		if (t->recorded)
			finished(t, uv_now(t->pool->ctx->loop) - info.started_at);
		else if (problem)
			template_build_failed(t, problem->cause);
	}
	/* Otherwise it had to give way, and has another try later. */
	snapshot_close(&t->recording);
	context_work(t->pool->ctx);
}

static const struct guest_events build_events = {
	.saved = on_saved,
	.closed = on_closed,
};

void template_build(struct template *t)
{
	int r = snapshot_new(&t->recording, t->spec.memory_mb);

	if (r < 0) {
		template_build_failed(t, strerror(-r));
		return;
	}
	t->recording.tsc_khz = tsc_khz(&t->pool->backends->tsc);
	t->recorded = false;
	if (template_start(t, MACHINE_RECORD, &t->builder_ticket, &build_events, t, &t->builder))
		t->state = TEMPLATE_BUILDING;
	else
		snapshot_close(&t->recording);
}
