/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a sandbox, and its end. */
#include <stdarg.h>

#include "internal.h"
#include "network.h"
#include "vm/base/log.h"
#include "vm/image/layer.h"

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

void sandbox_report(struct sandbox *s)
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

void sandbox_defer(struct sandbox *s)
{
	context_defer(&s->vm->ctx, &s->work);
}

/* It has begun, or ends: it has no hold any more on what it began from, see restore.c. */
static void leave_saved(struct sandbox *s)
{
	if (!s->from)
		return;
	s->kept = saved_has_memory(s->from);
	s->files_only = !s->kept;
	s->from = saved_unref(s->from);
}

void sandbox_set_state(struct sandbox *s, enum sandbox_state state)
{
	if (s->state == SANDBOX_CLOSING || s->state == state)
		return;
	s->state = state;
	if (state == SANDBOX_READY)
		leave_saved(s);
	sandbox_defer(s);
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
	leave_saved(s);
	sandbox_touch(s);
	meter_look(s);
	save_cancel(&s->save);
	network_let_go(s);
	if (s->guest && problem)
		guest_fail(s->guest, problem); /* which its run is to be told */
	else if (s->guest)
		guest_close(s->guest);
	sandbox_defer(s);
}

void sandbox_fail(struct sandbox *s, const struct problem *problem)
{
	end(s, problem);
}

void sandbox_failf(struct sandbox *s, enum problem_code code, const char *fix, const char *cause,
		   ...)
{
	struct problem p;
	va_list ap;

	va_start(ap, cause);
	problem_setv(&p, code, fix, cause, ap);
	va_end(ap);
	end(s, &p);
}

void sandbox_no_memory(struct sandbox *s)
{
	sandbox_failf(s, PROBLEM_NO_MEMORY, "", "there is no memory for a sandbox");
}

void sandbox_close(struct sandbox *s)
{
	end(s, NULL);
}

/* ---- the end ---- */

void sandbox_free(struct sandbox *s)
{
	if (s->template)
		s->template->refs--;
	layer_put(s->layer);
	restore_drop(&s->restore);
	saved_unref(s->from);
	spec_free(&s->spec);
	free(s);
}

void sandbox_part_closed(struct sandbox *s)
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
	sandbox_part_closed(handle->data);
}

/* Stops waiting for whatever it waits for. */
void sandbox_leave(struct sandbox *s)
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
	sandbox_leave(s);
	slots_release(&s->vm->slots, &s->slot);
	if (!s->guest)
		admission_release(&s->vm->admission, &s->ticket);
	context_wake(&s->vm->ctx);
	network_close(s);
	uv_close((uv_handle_t *)&s->deadline, on_timer_closed);
}

void sandbox_work(struct sandbox *s)
{
	if (s->state != SANDBOX_CLOSING) {
		report_wait(s);
		sandbox_report(s);
	} else if (!s->torn_down) {
		tear_down(s);
	}
}

void sandbox_on_work(struct deferred *d)
{
	sandbox_work(container_of(d, struct sandbox, work));
}
