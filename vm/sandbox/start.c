/* SPDX-License-Identifier: Apache-2.0 */
/* The guest of a sandbox: taken from the pool, cloned or booted, and its events. */
#include "internal.h"
#include "vm/base/log.h"
#include "network.h"
#include "vm/image/layer.h"

/* ---- its events ---- */

static void on_up(void *data)
{
	struct sandbox *s = data;

	if (s->start == START_SNAPSHOT && !s->was_up)
		template_clone_works(s->template);
	s->was_up = true;
	s->took_early = false;
	admission_started(&s->vm->admission, &s->ticket);
	context_wake(&s->vm->ctx);
	context_work(&s->vm->ctx);
	log_trace(&s->label, "sandbox", "is ready");
	if (restore_has_memory(s))
		restore_drop(&s->restore);
	if (restore_files(s))
		return;
	network_start(s);
	sandbox_set_state(s, SANDBOX_READY);
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

void sandbox_unlabel(struct sandbox *s)
{
	s->label.run = 0;
	s->label.began = 0;
}

/* It may have run the last it had to. */
static void leave_processors(struct sandbox *s)
{
	if (sandbox_computes(s))
		return;
	slots_release(&s->vm->slots, &s->slot);
	if (s->vm->slots.waiting)
		context_wake(&s->vm->ctx);
}

static void on_exit_of_run(void *data, uint32_t run, const struct vm_result *result)
{
	struct sandbox *s = data;

	if (proto_is_job(run)) {
		leave_processors(s);
		meter_look(s);
		tell_owner(s, exit, run, result);
		return;
	}
	/* If RUNNING has not been reported yet, it is reported before the run's end. */
	if (s->reported == SANDBOX_READY && s->state == SANDBOX_RUNNING)
		sandbox_work(s);
	sandbox_unlabel(s);
	if (s->state == SANDBOX_RUNNING)
		sandbox_set_state(s, SANDBOX_READY);
	leave_processors(s);
	meter_look(s); /* who sees the end of a run sees what it took */
	tell_owner(s, exit, run, result);
}

static void on_room(void *data, uint32_t id)
{
	const struct sandbox *s = data;

	tell_owner(s, room, id);
}

static void on_deaf(void *data, uint32_t id)
{
	const struct sandbox *s = data;

	tell_owner(s, deaf, id);
}

static void on_gone(void *data, uint32_t job)
{
	struct sandbox *s = data;

	leave_processors(s);
	tell_owner(s, gone, job);
}

static void on_frozen(void *data, int err)
{
	struct sandbox *s = data;

	if (save_on_frozen(s, err))
		return;
	s->still = s->still && err == 0;
	tell_owner(s, frozen, err);
}

static void on_packed(void *data, int err, struct pack *pack, const char *path)
{
	save_on_packed(data, err, pack, path);
}

static void on_unpacked(void *data, int err, const char *path)
{
	restore_on_unpacked(data, err, path);
}

static void on_point_ready(void *data)
{
	save_on_point_ready(data);
}

static void on_runs(void *data)
{
	save_on_runs(data);
}

static void on_pointed(void *data, int err, struct point *point)
{
	save_on_pointed(data, err, point);
}

static void on_changed(void *data, const struct sandbox_change *c)
{
	const struct sandbox *s = data;

	tell_owner(s, changed, c);
}

static void on_learned(void *data, const struct sandbox_learned *l)
{
	const struct sandbox *s = data;

	tell_owner(s, learned, l);
}

static void on_stirs(void *data)
{
	const struct sandbox *s = data;

	tell_owner(s, stirs);
}

static void on_asked(void *data)
{
	network_ask_traffic(data);
}

static void boot(struct sandbox *s);

/* Return: whether another guest may come up where this one did not: a clone, or one that was begun before the sandbox
 * was. */
static bool has_another_try(const struct sandbox *s)
{
	return (s->start == START_SNAPSHOT || s->took_early) && !s->was_up &&
	       s->state != SANDBOX_CLOSING && !s->vm->ctx.closing && !s->vm->ctx.spawner_lost;
}

/* Once the guest that did not come up is gone, another is booted in its place. */
static void on_problem(void *data, const struct problem *problem)
{
	struct sandbox *s = data;

	if (!has_another_try(s)) {
		sandbox_fail(s, problem);
		return;
	}
	log_trace(&s->label, "sandbox", "%s did not come up; it boots instead",
		  s->start == START_SNAPSHOT ? "the copy" : "the pool's");
	if (s->start == START_SNAPSHOT)
		template_clone_failed(s->template, problem);
	s->start = START_COLD;
	s->took_early = false;
}

static void on_guest_closed(void *data, const struct problem *problem)
{
	struct sandbox *s = data;

	(void)problem;
	meter_over(s);
	s->guest = NULL;
	if (s->state != SANDBOX_CLOSING)
		boot(s);
	if (!s->guest) {
		admission_release(&s->vm->admission, &s->ticket);
		context_wake(&s->vm->ctx);
	}
	sandbox_part_closed(s);
}

static void on_touched(void *data)
{
	sandbox_touch(data);
}

const struct guest_events sandbox_guest_events = {
	.up = on_up,
	.console = on_console,
	.output = on_output,
	.exit = on_exit_of_run,
	.room = on_room,
	.deaf = on_deaf,
	.gone = on_gone,
	.frozen = on_frozen,
	.packed = on_packed,
	.unpacked = on_unpacked,
	.point_ready = on_point_ready,
	.runs = on_runs,
	.pointed = on_pointed,
	.changed = on_changed,
	.learned = on_learned,
	.stirs = on_stirs,
	.touched = on_touched,
	.asked = on_asked,
	.problem = on_problem,
	.closed = on_guest_closed,
};

/* Starts its guest, a clone or a boot. */
static void boot(struct sandbox *s)
{
	const bool clone = s->start == START_SNAPSHOT;
	const struct point *point = s->start == START_SAVED ? s->restore.point : NULL;
	const struct guest_config cfg = {
		.ops = s->ops,
		.spec = &s->spec,
		.layer = s->layer,
		.mode = clone || point ? MACHINE_CLONE : MACHINE_COLD,
		.ram = clone ? s->template->snapshot.ram : -1,
		.state = clone ? s->template->snapshot.state : -1,
		.point = point,
	};
	int r;

	s->nopen++;
	r = guest_new(&s->vm->guests, &cfg, &sandbox_guest_events, s, &s->guest);
	if (r == 0)
		return;
	s->nopen--;
	sandbox_no_memory(s);
}

void sandbox_start(struct sandbox *s)
{
	s->start = restore_has_memory(s)				 ? START_SAVED
		   : s->template && s->template->state == TEMPLATE_READY ? START_SNAPSHOT
									 : START_COLD;
	s->vm->starts[s->start]++;
	boot(s);
}

/* An idle jail's control group has its limit of processes already: a sandbox that may have more needs another jail. */
static bool fits(const struct template *t, const struct sandbox_spec *spec)
{
	return t->ops->save || spec->limits.processes <= t->spec.limits.processes;
}

/* The pool's guest is this sandbox's from now on. It does not have its user's name, variables and quota yet: they are
 * sent before anything of his. */
static void receive(struct sandbox *s, enum sandbox_start start, enum sandbox_state state)
{
	s->nopen++;
	meter_begin(s);
	s->start = start;
	s->was_up = state == SANDBOX_READY;
	s->admitted_at = s->asked_at;
	s->state = s->from ? SANDBOX_STARTING : state;
	s->vm->started++;
	s->vm->starts[start]++;
	sandbox_defer(s);
	if (guest_introduce(s->guest, &s->spec, &sandbox_guest_events, s) < 0)
		sandbox_no_memory(s);
	else if (state == SANDBOX_READY && !restore_files(s))
		sandbox_set_state(s, SANDBOX_READY);
}

bool sandbox_take(struct sandbox *s)
{
	const struct admission *a = &s->vm->admission;
	struct template *t = s->template;

	/* Not while sandboxes wait for a place: they come first. */
	if (!t || !fits(t, &s->spec) || admission_contended(a) ||
	    !admission_own_room(a, s->spec.owner, s->ticket.memory_mb))
		return false;
	s->guest = pool_take(t, &s->ticket);
	if (s->guest) {
		log_trace(&s->label, "sandbox", "takes an idle one from the pool");
		receive(s, START_WARM, SANDBOX_READY);
		if (s->state == SANDBOX_READY)
			network_start(s);
		return true;
	}
	s->guest = pool_take_early(t, &s->ticket);
	if (!s->guest)
		return false;
	log_trace(&s->label, "sandbox", "takes one that is being started for the pool");
	s->layer = layer_ref(t->layer); /* should it have to boot instead */
	s->took_early = true;
	receive(s, t->ops->save ? START_SNAPSHOT : START_COLD, SANDBOX_STARTING);
	return true;
}
