/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox: its waits, the guest it gets, and its events. */
#include "sandbox.h"

#include <errno.h>
#include <stdarg.h>
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
 * Every sandbox ends through end(): it only marks the sandbox as CLOSING, so it may be called from anywhere, in
 * particular within calls of the interface, during which no callback may run. Further events of the guest are ignored.
 * The loop then closes the guest and the network; when they have ended, `closed` is called and the memory freed.
 * The place in the admission is released when the guest's memory is really free.
 */

static void begin(struct sandbox *s);
static void start(struct sandbox *s);

/* ---- states ---- */

static void report_wait(struct sandbox *s)
{
	struct problem p;

	if (!s->awaits)
		return;
	s->awaits = false;
	if (s->needs == NEEDS_PACKAGES)
		package_jobs_explain(&s->wait, &p);
	else
		image_jobs_explain(&s->wait, &p);
	tell_owner(s, awaits, &p);
}

static void report(struct sandbox *s)
{
	static const char is_clone[] = "xsbxfs: a clone of a machine that had booted before\n";

	if (s->state == s->reported || s->state == SANDBOX_CLOSING ||
	    (s->state == SANDBOX_READY && !network_is_ready(s)))
		return;
	if (s->state == SANDBOX_READY && s->start != START_COLD && !s->introduced && s->ops->save)
		tell_owner(s, console, is_clone, sizeof(is_clone) - 1);
	s->introduced = s->state == SANDBOX_READY || s->introduced;
	s->reported = s->state;
	s->events->state(s->data, s->state);
}

static void defer(struct sandbox *s)
{
	context_defer(&s->vm->ctx, &s->work);
}

static void set_state(struct sandbox *s, enum sandbox_state state)
{
	if (s->state == SANDBOX_CLOSING || s->state == state)
		return;
	s->state = state;
	defer(s);
}

/* Ends the sandbox, the only way to do so; @problem is NULL if the end was asked for. */
static void end(struct sandbox *s, const struct problem *problem)
{
	if (s->state == SANDBOX_CLOSING)
		return;
	s->asked = !problem;
	if (problem) {
		s->problem = *problem;
		s->vm->failed++;
	}
	s->state = SANDBOX_CLOSING;
	network_let_go(s);
	if (s->guest && problem)
		guest_fail(s->guest, problem); /* which its run is to be told */
	else if (s->guest)
		guest_close(s->guest);
	defer(s);
}

void sandbox_fail(struct sandbox *s, const struct problem *problem)
{
	end(s, problem);
}

static void printf_like(4, 5) sandbox_failf(struct sandbox *s, enum problem_code code,
					    const char *fix, const char *cause, ...)
{
	struct problem p;
	va_list ap;

	va_start(ap, cause);
	problem_setv(&p, code, fix, cause, ap);
	va_end(ap);
	end(s, &p);
}

static void no_memory(struct sandbox *s)
{
	sandbox_failf(s, PROBLEM_NO_MEMORY, "", "there is no memory for a sandbox");
}

void sandbox_close(struct sandbox *s)
{
	end(s, NULL);
}

/* ---- the end ---- */

static void sandbox_free(struct sandbox *s)
{
	if (s->template)
		s->template->refs--;
	layer_put(s->layer);
	spec_free(&s->spec);
	free(s);
}

static void part_closed(struct sandbox *s)
{
	struct vm *vm = s->vm;

	if (--s->nopen)
		return;
	context_undefer(&vm->ctx, &s->work);
	s->events->closed(s->data, s->asked ? NULL : &s->problem);
	TAILQ_REMOVE(&vm->sandboxes, s, link);
	if (vm->ctx.closing)
		context_wake(&vm->ctx);
	sandbox_free(s);
}

static void on_timer_closed(uv_handle_t *handle)
{
	part_closed(handle->data);
}

/* Stops waiting for whatever it waits for. */
static void leave(struct sandbox *s)
{
	if (s->needs == NEEDS_PACKAGES)
		package_jobs_unwait(&s->vm->package_jobs, &s->wait);
	wait_cancel(&s->wait);
	s->needs = NEEDS_NOTHING;
	s->awaits = false;
	uv_timer_stop(&s->deadline);
}

static void tear_down(struct sandbox *s)
{
	s->torn_down = true;
	leave(s);
	slots_release(&s->vm->slots, &s->slot);
	if (!s->guest)
		admission_release(&s->vm->admission, &s->ticket);
	context_wake(&s->vm->ctx);
	network_close(s);
	uv_close((uv_handle_t *)&s->deadline, on_timer_closed);
}

static void do_work(struct sandbox *s)
{
	if (s->state != SANDBOX_CLOSING) {
		report_wait(s);
		report(s);
	} else if (!s->torn_down) {
		tear_down(s);
	}
}

static void on_work(struct deferred *d)
{
	do_work(container_of(d, struct sandbox, work));
}

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
		leave(s);
		start(s);
		return;
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
	set_state(s, SANDBOX_STARTING);
	defer(s);
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
	defer(s);
}

static void on_waited(struct wait *w, const struct problem *problem)
{
	struct sandbox *s = container_of(w, struct sandbox, wait);
	const enum sandbox_needs needed = s->needs;

	leave(s);
	if (s->state == SANDBOX_CLOSING)
		return;
	if (problem)
		sandbox_fail(s, problem);
	else if (needed == NEEDS_SNAPSHOT)
		start(s);
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
		leave(s);
		sandbox_fail(s, &p);
	}
}

static void wait_for_place(struct sandbox *s)
{
	struct vm *vm = s->vm;

	if (!admission_possible(&vm->admission, &s->ticket)) {
		sandbox_failf(s, PROBLEM_NO_PLACE, "Ask for less memory (memory_mb).",
			      "a sandbox of %u MiB can never have a place: all sandboxes together "
			      "may have %llu MiB%s",
			      s->spec.memory_mb, (unsigned long long)vm->admission.limits.memory_mb,
			      vm->admission.limits.owner_memory_mb
				      ? ", and those of one user three quarters of it"
				      : "");
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
	struct layer_need need;

	if (s->vm->ctx.closing) {
		sandbox_close(s);
	} else if ((s->spec.npaths || s->spec.work || s->spec.image_view) && !s->ops->views) {
		sandbox_failf(s, PROBLEM_NO_PATHS, "Write backend = process.",
			      "ro, rw, work and view are for processes, not for a "
			      "machine");
	} else if (image_jobs_lacks(images, s->ops, s->spec.image_view, s->spec.image, true)) {
		await(s, NEEDS_IMAGE, IMAGE_JOB_MS);
		image_jobs_wait(images, s->spec.image, s->spec.image_view, &s->wait);
	} else if (!find_layer(s, &need)) {
		wait_for_packages(s, &need);
	} else {
		wait_for_place(s);
	}
}

/* ---- its guest ---- */

static void on_up(void *data)
{
	struct sandbox *s = data;

	if (s->start == START_SNAPSHOT && !s->was_up)
		template_clone_works(s->template);
	s->was_up = true;
	admission_started(&s->vm->admission, &s->ticket);
	context_wake(&s->vm->ctx);
	context_work(&s->vm->ctx);
	log_trace(&s->label, "sandbox", "is ready");
	network_start(s);
	set_state(s, SANDBOX_READY);
}

static void on_console(void *data, const void *bytes, size_t len)
{
	const struct sandbox *s = data;

	tell_owner(s, console, bytes, len);
}

static void on_output(void *data, uint32_t run, enum vm_stream stream, const void *bytes,
		      size_t len)
{
	const struct sandbox *s = data;

	tell_owner(s, output, run, stream, bytes, len);
}

static void unlabel(struct sandbox *s)
{
	s->label.run = 0;
	s->label.began = 0;
}

static void on_exit_of_run(void *data, uint32_t run, const struct vm_result *result)
{
	struct sandbox *s = data;

	/* If RUNNING has not been reported yet, it is reported before the run's end. */
	if (s->reported == SANDBOX_READY && s->state == SANDBOX_RUNNING)
		do_work(s);
	unlabel(s);
	slots_release(&s->vm->slots, &s->slot);
	if (s->vm->slots.waiting)
		context_wake(&s->vm->ctx);
	if (s->state == SANDBOX_RUNNING)
		set_state(s, SANDBOX_READY);
	tell_owner(s, exit, run, result);
}

static void on_frozen(void *data, int err)
{
	const struct sandbox *s = data;

	tell_owner(s, frozen, err);
}

static void on_asked(void *data)
{
	network_ask_traffic(data);
}

static void boot(struct sandbox *s);

/* If a clone does not come up, a machine is booted in its place, once the clone is gone. */
static void on_problem(void *data, const struct problem *problem)
{
	struct sandbox *s = data;

	if (s->start != START_SNAPSHOT || s->was_up || s->state == SANDBOX_CLOSING ||
	    s->vm->ctx.closing || s->vm->ctx.spawner_lost) {
		end(s, problem);
		return;
	}
	log_trace(&s->label, "sandbox", "the copy did not come up; it boots instead");
	template_clone_failed(s->template, problem);
	s->start = START_COLD;
}

static void on_guest_closed(void *data, const struct problem *problem)
{
	struct sandbox *s = data;

	(void)problem;
	s->guest = NULL;
	if (s->state != SANDBOX_CLOSING)
		boot(s);
	if (!s->guest) {
		admission_release(&s->vm->admission, &s->ticket);
		context_wake(&s->vm->ctx);
	}
	part_closed(s);
}

static const struct guest_events guest_events = {
	.up = on_up,
	.console = on_console,
	.output = on_output,
	.exit = on_exit_of_run,
	.frozen = on_frozen,
	.asked = on_asked,
	.problem = on_problem,
	.closed = on_guest_closed,
};

/* Starts its guest, a clone or a boot. */
static void boot(struct sandbox *s)
{
	const bool clone = s->start == START_SNAPSHOT;
	const struct guest_config cfg = {
		.ops = s->ops,
		.spec = &s->spec,
		.layer = s->layer,
		.mode = clone ? MACHINE_CLONE : MACHINE_COLD,
		.ram = clone ? s->template->snapshot.ram : -1,
		.state = clone ? s->template->snapshot.state : -1,
	};
	int r;

	s->nopen++;
	r = guest_new(&s->vm->guests, &cfg, &guest_events, s, &s->guest);
	if (r == 0)
		return;
	s->nopen--;
	no_memory(s);
}

static void start(struct sandbox *s)
{
	s->start =
		s->template && s->template->state == TEMPLATE_READY ? START_SNAPSHOT : START_COLD;
	s->vm->starts[s->start]++;
	boot(s);
}

static void on_admitted(struct ticket *t)
{
	struct sandbox *s = container_of(t, struct sandbox, ticket);

	leave(s);
	s->vm->started++;
	s->admitted_at = uv_now(s->vm->ctx.loop);
	log_trace(&s->label, "sandbox", "has a place");
	set_state(s, SANDBOX_STARTING);
	report(s);
	if (s->state == SANDBOX_CLOSING)
		return;
	s->needs = NEEDS_SNAPSHOT;
	if (s->template && template_wait(s->template, &s->wait)) {
		log_trace(&s->label, "sandbox", "waits for the snapshot to be read");
		uv_timer_start(&s->deadline, on_deadline, s->vm->guests.boot_s * 1000ull, 0);
		return;
	}
	s->needs = NEEDS_NOTHING;
	start(s);
}

static void on_slot(struct slot *slot)
{
	struct sandbox *s = container_of(slot, struct sandbox, slot);

	if (s->state == SANDBOX_READY && s->reported == SANDBOX_READY)
		s->events->state(s->data, SANDBOX_READY);
	/* Whoever wanted to run something may not do so after all: then the processors are free for others. If it
	 * only runs later, it asks for them again. */
	if (s->state != SANDBOX_RUNNING && s->slot.state == SLOT_HELD) {
		slots_release(&s->vm->slots, &s->slot);
		context_wake(&s->vm->ctx);
	}
}

/* ---- beginning ---- */

static const struct network_ops network_ops = {
	.fail = sandbox_fail, .changed = defer, .closed = part_closed};

/* Return: 0 or -errno. */
static int make(struct vm *vm, const struct sandbox_spec *spec, const struct sandbox_events *events,
		void *data, struct sandbox **ret_sandbox)
{
	struct sandbox *s = calloc(1, sizeof(*s));
	int r = s ? spec_copy(&s->spec, spec) : -ENOMEM;

	if (r == 0) {
		s->vm = vm;
		s->label = s->spec.label;
		s->ops = backends_ops(&vm->backends, spec->backend);
		s->events = events;
		s->data = data;
		s->work.run = on_work;
		s->wait.done = on_waited;
		s->wait.progress = on_progress;
		s->wait.owner = s->ticket.owner = s->slot.owner = spec->owner;
		s->ticket.admitted = on_admitted;
		s->slot.held = on_slot;
		s->slot.cpus = s->spec.cpus * 100;
		s->ticket.memory_mb = spec->memory_mb + s->ops->overhead_mb;
		r = network_new(s, &network_ops);
	}
	if (r < 0) {
		if (s)
			spec_free(&s->spec);
		free(s);
		return r;
	}
	s->asked_at = uv_now(vm->ctx.loop);
	uv_timer_init(vm->ctx.loop, &s->deadline);
	s->deadline.data = s;
	s->nopen++;
	TAILQ_INSERT_TAIL(&vm->sandboxes, s, link);
	*ret_sandbox = s;
	return 0;
}

/* An idle jail's control group has its limit of processes already: a sandbox that may have more needs another jail. */
static bool fits(const struct template *t, const struct sandbox_spec *spec)
{
	return t->ops->save || spec->limits.processes <= t->spec.limits.processes;
}

/* Takes an idle guest. It is up, but does not have its user's name, variables and quota yet: they are sent before
 * anything of his. Return: false if there is none. */
static bool take_idle(struct sandbox *s)
{
	struct template *t = s->template;
	struct vm *vm = s->vm;

	/* Not while sandboxes wait for a place: they come first. */
	if (!t || !fits(t, &s->spec) || admission_contended(&vm->admission) ||
	    !admission_own_room(&vm->admission, s->spec.owner, s->ticket.memory_mb))
		return false;
	s->guest = pool_take(t, &s->ticket);
	if (!s->guest)
		return false;
	s->nopen++;
	s->start = START_WARM;
	s->was_up = true;
	log_trace(&s->label, "sandbox", "takes an idle one from the pool");
	s->admitted_at = s->asked_at;
	s->state = SANDBOX_READY;
	vm->started++;
	vm->starts[START_WARM]++;
	if (guest_introduce(s->guest, &s->spec, &guest_events, s) < 0) {
		no_memory(s);
		return true;
	}
	network_start(s);
	defer(s);
	return true;
}

int sandbox_new(struct vm *vm, const struct sandbox_spec *spec, const struct sandbox_events *events,
		void *data, struct sandbox **ret_sandbox)
{
	struct sandbox *s;
	int r = make(vm, spec, events, data, &s);

	if (r < 0)
		return r;
	*ret_sandbox = s;
	s->template = spec->alone ? NULL : template_get(&vm->pool, spec);
	if (s->template) {
		s->template->refs++;
		s->template->uses++;
	}
	/* It is CLOSING already if one of its ports is not available. */
	if (s->state != SANDBOX_CLOSING && !take_idle(s))
		begin(s);
	return 0;
}

/* ---- the seam ---- */

int sandbox_run(struct sandbox *s, const struct sandbox_run *run)
{
	int r;

	if (s->state != SANDBOX_READY)
		return -EBUSY;
	if (run->code_len > PROTO_CODE_MAX)
		return -EFBIG;
	s->label.run = run->id;
	s->label.began = run->began;
	if (!slots_take(&s->vm->slots, &s->slot, uv_now(s->vm->ctx.loop))) {
		log_trace(&s->label, "sandbox", "waits for a processor: %u run%s",
			  s->vm->slots.busy, s->vm->slots.busy == 1 ? " computes" : "s compute");
		context_wake(&s->vm->ctx);
		unlabel(s);
		return -EAGAIN;
	}
	r = guest_run(s->guest, run);
	if (r < 0) {
		slots_release(&s->vm->slots, &s->slot);
		unlabel(s);
	} else {
		set_state(s, SANDBOX_RUNNING);
	}
	return r;
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
	return s->state == SANDBOX_READY ? guest_freeze(s->guest) : -EBUSY;
}

void sandbox_thaw(struct sandbox *s)
{
	if (s->state == SANDBOX_READY)
		guest_thaw(s->guest);
}

int sandbox_reset(struct sandbox *s)
{
	int r = s->state == SANDBOX_READY ? guest_reset(s->guest) : -EBUSY;

	if (r == 0)
		set_state(s, SANDBOX_STARTING);
	return r;
}

int sandbox_file(struct sandbox *s, const struct vm_file *req, vm_file_fn fn, void *data)
{
	return s->state != SANDBOX_CLOSING && s->guest ? guest_file(s->guest, req, fn, data)
						       : -ESTALE;
}
