/* SPDX-License-Identifier: Apache-2.0 */
/* Making a template's snapshot: a machine boots, is exercised, and is copied. */
#include <errno.h>
#include <string.h>

#include "vm/base/log.h"
#include "template_job.h"
#include "vm/base/problem.h"
#include "vm/vm_internal.h"

/*
 * Theory of operation
 * -------------------
 * The machine is a sandbox of its own that nobody gets to use: it boots with memory that is kept,
 * is set up as the template says, exercises its interpreter, and is left alone for a moment, so that
 * nothing is on its way between it and us. Then QEMU writes down the state of the devices, and the
 * machine is killed; what it leaves, memory and state, is sealed and is the snapshot. It can be
 * cloned from that moment on; putting it on the disk happens behind that.
 *
 * Until it is renamed there nothing has a name: whoever is killed in between leaves nothing.
 */

static void on_state(void *data, enum sandbox_state state)
{
	(void)data;
	(void)state;
}

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
	t->kept = t->unkept = t->fetched = false;
	t->clone_failures = 0;
	t->problem[0] = '\0';
	t->built_ms = took_ms;
	log_info("snapshot of %s (%u MiB) made: %llu MiB after %llu ms", t->image, t->memory_mb,
		 (unsigned long long)(t->snapshot.bytes >> 20), (unsigned long long)took_ms);
	context_event(&t->vm->ctx, "snapshot", "%s: made, %llu MiB after %llu ms", t->image,
		      (unsigned long long)(t->snapshot.bytes >> 20), (unsigned long long)took_ms);
	r = template_job_start(t, JOB_STORE, &t->snapshot);
	if (r < 0)
		log_warn("the snapshot of %s can't be kept: %s", t->image, strerror(-r));
}

/* The machine is gone, so nothing writes to its memory any more. */
static void on_closed(void *data, const struct problem *problem)
{
	struct sandbox *s = data;
	struct template *t = s->template;

	t->builder = NULL;
	if (t->state == TEMPLATE_BUILDING) {
		t->state = TEMPLATE_NONE;
		if (t->recorded)
			finished(t, uv_now(t->vm->ctx.loop) - s->admitted_at);
		else if (problem)
			template_build_failed(t, problem->cause);
	}
	/* Otherwise it had to give way, and has another try later. */
	snapshot_close(&t->recording);
	context_work(&t->vm->ctx);
}

static const struct sandbox_events build_events = {
	.state = on_state,
	.console = sandbox_unheard_console,
	.output = sandbox_unheard_output,
	.exit = sandbox_unheard_exit,
	.closed = on_closed,
};

void template_build(struct template *t)
{
	int r = snapshot_new(&t->recording, t->memory_mb);

	if (r < 0) {
		template_build_failed(t, strerror(-r));
		return;
	}
	t->recording.tsc_khz = tsc_khz(&t->vm->backends.tsc);
	t->recorded = false;
	t->builder = sandbox_background(t, SANDBOX_BUILD, &build_events);
	if (t->builder)
		t->state = TEMPLATE_BUILDING;
	else
		snapshot_close(&t->recording);
}

static void on_saved(void *data, const char *error)
{
	struct sandbox *s = data;
	struct problem p;

	if (!error) {
		s->template->recorded = true;
		sandbox_close(s);
		return;
	}
	problem_set(&p, "not-saved", "", "QEMU can't copy a machine: %s", error);
	sandbox_fail(s, &p);
}

void template_settled(struct sandbox *s)
{
	struct problem p;
	int r;

	/* With a key that has changed in the meantime it would be of no use. */
	if (s->template->state != TEMPLATE_BUILDING) {
		sandbox_close(s);
		return;
	}
	r = s->ops->save(s->backend, on_saved);
	if (r == 0)
		return;
	problem_set(&p, "not-saved", "", "QEMU was not asked for a copy: %s", strerror(-r));
	sandbox_fail(s, &p);
}
