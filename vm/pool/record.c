/* SPDX-License-Identifier: Apache-2.0 */
/* The making of a template's snapshot. */
#include "record.h"

#include <string.h>

#include "vm/base/log.h"
#include "ahead.h"
#include "pool.h"
#include "vm/host/tsc.h"

/*
 * Theory of operation
 * -------------------
 * The machine is a guest without a user: it boots with memory in a file, is set up for the template, imports its
 * packages, exercises its interpreter, and is left idle for a moment, so that no messages are in flight. Then
 * QEMU saves the state of devices, and the machine is killed; its memory and state are sealed and are
 * the snapshot. It can be cloned from then on; it is written to the disk afterwards.
 *
 * A machine whose import fails is replaced by one that does without the package that it was at (ahead.c): what that has
 * left in it nobody knows. One that ends meanwhile for another reason, such as want of memory on the host, is made again
 * as it was, after a while; only if none lives through its imports, and the exercises after them, is that the packages'
 * doing as well.
 *
 * Until it is renamed there, nothing has a final name: a daemon that is killed leaves nothing behind.
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
	t->saved = t->save_failed = t->fetched = t->shared = false;
	t->clone_failures = 0;
	t->problem[0] = '\0';
	t->built_ms = took_ms;
	log_info("snapshot of %s (%u MiB) made: %llu MiB after %llu ms", t->spec.image,
		 t->spec.memory_mb, (unsigned long long)(t->snapshot.bytes >> 20),
		 (unsigned long long)took_ms);
	context_event(t->pool->ctx, "snapshot", "%s: made, %llu MiB after %llu ms", t->spec.image,
		      (unsigned long long)(t->snapshot.bytes >> 20), (unsigned long long)took_ms);
	template_store(t);
}

static void on_saved(void *data)
{
	struct template *t = data;

	t->recorded = true;
}

/* Was it an import that has ended it? One may end well, and leave an interpreter that can't be exercised. */
static bool is_to_blame(const struct template *t, const struct guest_info *info)
{
	return info->import_failed ||
	       (info->imports_unproven && t->build_failures + 1 >= TEMPLATE_BUILD_FAILURES);
}

/* Return: whether it was an import that has ended it, and the next one does without. */
static bool give_up_import(struct template *t, const struct guest_info *info, const char *why)
{
	const char *without = *info->culprit ? info->culprit : "imports";

	if (!is_to_blame(t, info))
		return false;
	t->build_failures = 0;
	ahead_failed(&t->ahead, info->culprit);
	log_warn("%s (%u MiB): %s; its snapshot is made without %s", t->spec.image,
		 t->spec.memory_mb, why, t->ahead.off ? "imports" : without);
	context_event(t->pool->ctx, "snapshot", "%s: %s; made without %s", t->spec.image, why,
		      t->ahead.off ? "imports" : without);
	template_refresh(t); /* there may be one like that */
	template_load(t);
	return true;
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
		else if (problem && !give_up_import(t, &info, problem->cause))
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

bool record_start(struct template *t)
{
	int r = snapshot_new(&t->recording, t->spec.memory_mb);

	if (r < 0) {
		template_build_failed(t, strerror(-r));
		return false;
	}
	t->recording.tsc_khz = tsc_khz(&t->pool->backends->tsc);
	t->recorded = false;
	if (!template_start(t, MACHINE_RECORD, false, false, &t->builder_ticket, &build_events, t,
			    &t->builder)) {
		snapshot_close(&t->recording);
		return false;
	}
	t->state = TEMPLATE_BUILDING;
	return true;
}
