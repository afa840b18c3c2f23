/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox: its waits, the guest it gets, and its events. */
#include "sandbox.h"

#include <errno.h>
#include <string.h>

#include "internal.h"
#include "vm/base/log.h"
#include "network.h"
#include "vm/image/layer.h"

/*
 * Theory of operation
 * -------------------
 *	WAITING -> STARTING -> READY <-> RUNNING
 *	    \         |  ^       |         |
 *	     \        |  +-reset-+         |
 *	      +-------+----> CLOSING <-----+---> closed
 *
 * Until it has a guest, a sandbox waits for one thing at a time: its image to be built, its packages to be installed,
 * a place, the snapshot it will be cloned from. begin() determines what is missing, and is called again when that is
 * available. Then it takes an idle guest from the pool, or has one cloned or booted. If a clone fails to start, this
 * is hidden from the user: when it has ended, another guest is booted, in the same place.
 *
 * Every sandbox ends through end() (state.c): it only marks the sandbox as CLOSING, so it may be called from anywhere, in
 * particular within calls of the interface, during which no callback may run. Further events of the guest are ignored.
 * The loop then closes the guest and the network; when they have ended, `closed` is called and the memory freed.
 * The place in the admission is released when the guest's memory is really free.
 */

static void begin(struct sandbox *s);

/* ---- what it waits for ---- */

static void no_place(struct sandbox *s)
{
	const char *fix;
	char why[256];

	schedule_explain(s, why, sizeof(why), &fix);
	s->vm->refused++;
	sandbox_failf(s, PROBLEM_NO_PLACE, fix, "no place for another sandbox in %u s: %s",
		      s->vm->admission_s, why);
}

static void on_deadline(uv_timer_t *timer)
{
	struct sandbox *s = timer->data;
	struct problem p;

	if (s->state == SANDBOX_CLOSING)
		return;
	switch (s->needs) {
	case NEEDS_PLACE: no_place(s); return;
	case NEEDS_IMAGE: image_jobs_explain_late(&s->wait, &p); break;
	case NEEDS_PACKAGES: package_jobs_explain_late(&p); break;
	case NEEDS_SNAPSHOT: /* the disk does not answer: starts without the snapshot */
		sandbox_leave(s);
		sandbox_start(s);
		return;
	case NEEDS_SAVED:
	case NEEDS_DIGESTS: restore_is_late(s); return;
	case NEEDS_NOTHING: return;
	}
	sandbox_fail(s, &p);
}

/* Waits for something that others may wait for too. It holds no place meanwhile. */
static void await(struct sandbox *s, enum sandbox_needs needs, uint64_t ms)
{
	log_trace(&s->label, "sandbox", "waits for its %s",
		  needs == NEEDS_IMAGE ? "image" : "packages");
	s->needs = needs;
	s->awaits = true;
	uv_timer_start(&s->deadline, on_deadline, ms, 0);
	sandbox_set_state(s, SANDBOX_STARTING);
	sandbox_defer(s);
}

static void on_progress(struct wait *w, const char *line)
{
	struct sandbox *s = container_of(w, struct sandbox, wait);

	if (s->state == SANDBOX_CLOSING)
		return;
	if (s->needs == NEEDS_PACKAGES) {
		tell_owner(s, console, line, strlen(line));
		tell_owner(s, console, "\n", 1);
	}
	s->awaits = s->needs == NEEDS_PACKAGES || s->needs == NEEDS_IMAGE;
	sandbox_defer(s);
}

static void proceed(struct sandbox *s);

/* What it begins from is there: memory before it has a guest, files when that is up. */
static void on_loaded(struct sandbox *s)
{
	if (restore_has_memory(s))
		proceed(s);
	else if (s->guest && s->was_up)
		(void)restore_files(s);
}

static void on_waited(struct wait *w, const struct problem *problem)
{
	struct sandbox *s = container_of(w, struct sandbox, wait);
	const enum sandbox_needs needed = s->needs;

	sandbox_leave(s);
	if (s->state == SANDBOX_CLOSING)
		return;
	if (problem)
		sandbox_fail(s, problem);
	else if (needed == NEEDS_SNAPSHOT)
		sandbox_start(s);
	else if (needed == NEEDS_SAVED)
		on_loaded(s);
	else
		begin(s);
}

/* Return: false if it needs packages that are not installed yet. */
static bool find_layer(struct sandbox *s, struct layer_need *need)
{
	struct package_jobs *jobs = &s->vm->package_jobs;

	if (!*s->spec.packages || s->layer)
		return true;
	package_jobs_need(jobs, s->ops, &s->spec, need);
	s->layer = package_jobs_layer(jobs, need);
	return s->layer;
}

static void wait_for_packages(struct sandbox *s, const struct layer_need *need)
{
	struct problem p;

	await(s, NEEDS_PACKAGES, PACKAGE_JOB_MS);
	if (package_jobs_ask(&s->vm->package_jobs, need, &s->wait, &p) < 0) {
		sandbox_leave(s);
		sandbox_fail(s, &p);
	}
}

static void can_never(struct sandbox *s)
{
	struct admission_owner may, has;
	char own[80] = "";

	admission_of(&s->vm->admission, s->ticket.owner, &may, &has);
	if (may.memory_mb)
		snprintf(own, sizeof(own), ", and those of this user %llu",
			 (unsigned long long)may.memory_mb);
	sandbox_failf(
		s, PROBLEM_NO_PLACE,
		may.memory_mb ? "Ask for less memory (memory_mb); the administrator sets the "
				"quota (memory_mb)."
			      : "Ask for less memory (memory_mb).",
		"a sandbox of %u MiB, which needs %u of the host, can never have a place: all "
		"sandboxes together may have %llu MiB%s",
		s->spec.memory_mb, s->ticket.memory_mb,
		(unsigned long long)s->vm->admission.limits.memory_mb, own);
}

static void wait_for_place(struct sandbox *s)
{
	struct vm *vm = s->vm;

	if (!admission_possible(&vm->admission, &s->ticket)) {
		can_never(s);
		return;
	}
	if (!admission_queue_room(&vm->admission, s->ticket.owner)) {
		vm->refused++;
		sandbox_failf(s, PROBLEM_TOO_MANY_WAITING,
			      "Try again when some of them have ended, or raise admission_queue or "
			      "admission_queue_user.",
			      vm->admission.waiting == 1
				      ? "%u other waits for a place for its sandbox already"
				      : "%u others wait for a place for their sandbox already",
			      vm->admission.waiting);
		return;
	}
	if (s->ops->needs_image)
		probe_want(&vm->backends.probe);
	s->ticket.held = s->ops->needs_image && !vm->backends.probe.done;
	log_trace(&s->label, "sandbox", "waits for a place: %u MiB, as %s", s->ticket.memory_mb,
		  s->ops->name);
	admission_wait(&vm->admission, &s->ticket);
	s->needs = NEEDS_PLACE;
	uv_timer_start(&s->deadline, on_deadline, vm->admission_s * 1000ull, 0);
	context_wake(&vm->ctx);
}

/* Waits for the next thing it lacks; with nothing else lacking, for a place. */
static void begin(struct sandbox *s)
{
	struct image_jobs *images = &s->vm->image_jobs;
	const bool unpacked = s->spec.image_view && s->ops->views;
	struct layer_need need;

	if (s->vm->ctx.closing) {
		sandbox_close(s);
	} else if ((s->spec.npaths || s->spec.work) && !s->ops->views) {
		sandbox_failf(s, PROBLEM_NO_PATHS, "Write backend = process.",
			      "ro, rw and work are for processes, not for a machine");
	} else if (image_jobs_lacks(images, s->ops, s->spec.image_view, s->spec.image, true)) {
		await(s, NEEDS_IMAGE, IMAGE_JOB_MS);
		image_jobs_wait(images, s->spec.image, unpacked, &s->wait);
	} else if (!find_layer(s, &need)) {
		wait_for_packages(s, &need);
	} else {
		wait_for_place(s);
	}
}

/* ---- places ---- */

/* It has a place: what else is lacking? */
static void proceed(struct sandbox *s)
{
	const enum restore_step step = restore_memory(s, &sandbox_network_ops);

	s->needs = NEEDS_NOTHING;
	if (step == RESTORE_ENDS)
		return;
	if (step != RESTORE_READY)
		s->needs = step == RESTORE_LOADS ? NEEDS_SAVED : NEEDS_DIGESTS;
	else if (s->template && template_wait(s->template, &s->wait))
		s->needs = NEEDS_SNAPSHOT;
	if (s->needs == NEEDS_NOTHING) {
		sandbox_start(s);
		return;
	}
	if (s->needs == NEEDS_SNAPSHOT)
		log_trace(&s->label, "sandbox", "waits for the snapshot to be read");
	uv_timer_start(&s->deadline, on_deadline, s->vm->guests.boot_s * 1000ull, 0);
}

static void on_admitted(struct ticket *t)
{
	struct sandbox *s = container_of(t, struct sandbox, ticket);

	sandbox_leave(s);
	s->vm->started++;
	s->admitted_at = uv_now(s->vm->ctx.loop);
	log_trace(&s->label, "sandbox", "has a place");
	sandbox_set_state(s, SANDBOX_STARTING);
	sandbox_report(s);
	if (s->state != SANDBOX_CLOSING)
		proceed(s);
}

void sandbox_on_digests(struct sandbox *s)
{
	if (s->state == SANDBOX_CLOSING)
		return;
	if (s->needs == NEEDS_DIGESTS) {
		sandbox_leave(s);
		proceed(s);
	}
	save_on_digests(s);
}

static void on_slot(struct slot *slot)
{
	struct sandbox *s = container_of(slot, struct sandbox, slot);

	if (s->state == SANDBOX_READY && s->reported == SANDBOX_READY)
		s->events->state(s->data, SANDBOX_READY);
	/* Whoever wanted to run something may not do so after all: then the processors are free for others. If it
	 * only runs later, it asks for them again. */
	if (!sandbox_computes(s) && s->slot.state == SLOT_HELD) {
		slots_release(&s->vm->slots, &s->slot);
		context_wake(&s->vm->ctx);
	}
}

/* ---- beginning ---- */

static void on_network_resumes(struct sandbox *s)
{
	if (s->state == SANDBOX_READY && s->reported == SANDBOX_READY)
		s->events->state(s->data, SANDBOX_READY);
}

const struct network_ops sandbox_network_ops = {.fail = sandbox_fail,
						.changed = sandbox_defer,
						.resumes = on_network_resumes,
						.closed = sandbox_part_closed};

int sandbox_make(struct vm *vm, const struct sandbox_spec *spec,
		 const struct sandbox_events *events, void *data, struct sandbox **ret_sandbox)
{
	struct sandbox *s = calloc(1, sizeof(*s));
	int r = s ? spec_copy(&s->spec, spec) : -ENOMEM;

	if (r < 0) {
		free(s);
		return r;
	}
	s->vm = vm;
	s->spec.from = NULL;
	s->label = s->spec.label;
	s->ops = backends_ops(&vm->backends, spec->backend);
	s->events = events;
	s->data = data;
	s->work.run = sandbox_on_work;
	s->wait.done = on_waited;
	s->wait.progress = on_progress;
	s->wait.owner = s->ticket.owner = s->slot.owner = s->meter.payer = spec->owner;
	s->ticket.admitted = on_admitted;
	s->slot.held = on_slot;
	s->slot.cpus = s->spec.cpus * 100;
	s->ticket.memory_mb = spec->memory_mb + s->ops->overhead_mb;
	s->asked_at = uv_now(vm->ctx.loop);
	*ret_sandbox = s;
	return 0;
}

void sandbox_enter(struct sandbox *s)
{
	uv_timer_init(s->vm->ctx.loop, &s->deadline);
	s->deadline.data = s;
	s->nopen++;
	TAILQ_INSERT_TAIL(&s->vm->sandboxes, s, link);
	meter_start(s->vm);
}

int sandbox_new(struct vm *vm, const struct sandbox_spec *spec, const struct sandbox_events *events,
		void *data, struct sandbox **ret_sandbox)
{
	struct sandbox *s;
	int r = sandbox_make(vm, spec, events, data, &s);

	if (r < 0)
		return r;
	r = network_new(s, &sandbox_network_ops);
	if (r < 0) {
		sandbox_free(s);
		return r;
	}
	sandbox_enter(s);
	*ret_sandbox = s;
	s->from = spec->from ? saved_ref(spec->from) : NULL;
	s->template = spec->alone || restore_has_memory(s) ? NULL : template_get(&vm->pool, spec);
	if (s->template) {
		s->template->refs++;
		s->template->uses++;
	}
	/* It is CLOSING already if one of its ports is not available. */
	if (s->state != SANDBOX_CLOSING && !sandbox_take(s))
		begin(s);
	return 0;
}

/* ---- the seam ---- */

int sandbox_run(struct sandbox *s, const struct sandbox_run *run)
{
	int r;

	if (s->state != SANDBOX_READY || s->save.step != SAVE_NONE)
		return -EBUSY;
	if (run->code_len > PROTO_CODE_MAX)
		return -EFBIG;
	if (!network_is_ready(s))
		return -EAGAIN;
	s->label.run = run->id;
	s->label.began = run->began;
	if (!slots_take(&s->vm->slots, &s->slot, uv_now(s->vm->ctx.loop))) {
		log_trace(&s->label, "sandbox", "waits for a processor: %u run%s",
			  s->vm->slots.busy, s->vm->slots.busy == 1 ? " computes" : "s compute");
		context_wake(&s->vm->ctx);
		sandbox_unlabel(s);
		return -EAGAIN;
	}
	r = guest_run(s->guest, run);
	if (r < 0) {
		if (!sandbox_computes(s))
			slots_release(&s->vm->slots, &s->slot);
		sandbox_unlabel(s);
	} else {
		sandbox_set_state(s, SANDBOX_RUNNING);
	}
	return r;
}

int sandbox_job(struct sandbox *s, const struct sandbox_job *job)
{
	int r;

	if ((s->state != SANDBOX_READY && s->state != SANDBOX_RUNNING) || s->save.step != SAVE_NONE)
		return -EBUSY;
	if (!network_is_ready(s))
		return -EAGAIN;
	if (!slots_take(&s->vm->slots, &s->slot, uv_now(s->vm->ctx.loop))) {
		context_wake(&s->vm->ctx);
		return -EAGAIN;
	}
	r = guest_job(s->guest, job);
	if (r < 0 && !sandbox_computes(s))
		slots_release(&s->vm->slots, &s->slot);
	return r;
}

bool sandbox_is_up(const struct sandbox *s)
{
	return s->state != SANDBOX_CLOSING && s->guest;
}

int sandbox_job_signal(struct sandbox *s, uint32_t id, unsigned sig)
{
	return sandbox_is_up(s) ? guest_job_signal(s->guest, id, sig) : -ESRCH;
}

bool sandbox_write(struct sandbox *s, uint32_t id, const void *data, size_t len, bool last,
		   size_t *ret_taken)
{
	if (sandbox_is_up(s))
		return guest_write(s->guest, id, data, len, last, ret_taken);
	*ret_taken = len;
	return true;
}

int sandbox_job_resize(struct sandbox *s, uint32_t id, unsigned rows, unsigned cols)
{
	return sandbox_is_up(s) ? guest_job_resize(s->guest, id, rows, cols) : -ESRCH;
}

void sandbox_job_hold(struct sandbox *s, uint32_t id, bool hold)
{
	if (sandbox_is_up(s))
		guest_job_hold(s->guest, id, hold);
}

int sandbox_job_forget(struct sandbox *s, uint32_t id)
{
	return sandbox_is_up(s) ? guest_job_forget(s->guest, id) : -ESRCH;
}

void sandbox_hold(struct sandbox *s, bool hold)
{
	if (s->guest)
		guest_hold(s->guest, hold);
}

int sandbox_signal(struct sandbox *s, uint32_t id, enum sandbox_signal sig)
{
	return s->state == SANDBOX_RUNNING ? guest_signal(s->guest, id, sig) : -ESRCH;
}

int sandbox_freeze(struct sandbox *s)
{
	int r = s->state == SANDBOX_READY && s->save.step == SAVE_NONE ? guest_freeze(s->guest)
								       : -EBUSY;

	s->still = s->still || r == 0;
	return r;
}

void sandbox_thaw(struct sandbox *s)
{
	if (s->save.paused)
		save_unpause(&s->save);
	s->still = false;
	if (s->state == SANDBOX_READY && s->save.step == SAVE_NONE)
		guest_thaw(s->guest);
}

int sandbox_watch(struct sandbox *s, bool on)
{
	return sandbox_is_up(s) ? guest_watch(s->guest, on) : -EBUSY;
}

int sandbox_reset(struct sandbox *s)
{
	int r = s->state == SANDBOX_READY ? guest_reset(s->guest) : -EBUSY;

	if (r == 0) {
		save_cancel(&s->save);
		s->still = false;
		sandbox_set_state(s, SANDBOX_STARTING);
	}
	return r;
}

int sandbox_file(struct sandbox *s, const struct vm_file *req, vm_file_fn fn, void *data)
{
	return sandbox_is_up(s) ? guest_file(s->guest, req, fn, data) : -ESTALE;
}

void sandbox_file_undo(struct sandbox *s, enum vm_file_op op, const struct vm_file_reply *reply)
{
	if (sandbox_is_up(s))
		guest_undo_file(s->guest, op, reply);
}
