/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's machine: started, listened to, and started again another way if it can't be cloned. */
#include <string.h>

#include "internal.h"
#include "vm/base/problem.h"
#include "vm/vm_internal.h"

#define PANIC "Kernel panic"

static void on_up(void *data)
{
	struct sandbox *s = data;

	if (s->state != SANDBOX_CLOSING && s->phase == PHASE_BOOT && !s->channel.generation &&
	    !s->retry)
		link_hello(s);
}

static void on_hangup(void *data)
{
	link_hangup(data);
}

static void on_console(void *data, const void *bytes, size_t len)
{
	struct sandbox *s = data;

	if (s->retry)
		return;
	tail_add(&s->console, bytes, len);
	s->events->console(s->data, bytes, len);
}

static void on_down(void *data, const struct problem *problem)
{
	struct sandbox *s = data;
	struct problem p = *problem;
	char quote[600];

	if (s->state == SANDBOX_CLOSING || s->retry)
		return;
	if (s->phase == PHASE_BOOT || s->phase == PHASE_SETUP) {
		link_boot_failed(s, problem);
		return;
	}
	if (tail_contains(&s->console, PANIC))
		problem_set(&p, "guest-panic",
			    "Reset the session; more memory may help (memory_mb).",
			    "the kernel in the sandbox gave up: %s",
			    tail_quote(&s->console, PANIC, quote, sizeof(quote)));
	else if (strcmp(p.code, "machine-off") == 0 && s->console.total)
		problem_add(&p, "; the console ends with: %s",
			    tail_quote(&s->console, NULL, quote, sizeof(quote)));
	if (strcmp(p.code, PROBLEM_OOM) == 0)
		turn_out_of_memory(s);
	sandbox_fail(s, &p);
}

/* The clone's channel or machine is gone; the timers keep the sandbox alive. */
static void retry_part(struct sandbox *s)
{
	/* If it was closed meanwhile, what is left is taken down as usual. */
	if (s->backend || s->channel.closed || s->state == SANDBOX_CLOSING)
		return;
	memset(&s->channel, 0, sizeof(s->channel));
	s->retry = RETRY_NONE;
	s->phase = PHASE_BOOT;
	s->unheard = 0;
	sandbox_deadline(s, s->vm->boot_s * 1000ull);
	link_start(s);
}

static void on_retry_channel_closed(void *data)
{
	struct sandbox *s = data;

	s->channel.closed = NULL;
	if (s->torn_down) {
		sandbox_part_closed(s);
		return;
	}
	s->nopen--;
	retry_part(s);
}

void link_retry(struct sandbox *s)
{
	s->retry = RETRY_ENDING;
	s->start = START_COLD;
	sandbox_deadline(s, 0);
	uv_timer_stop(&s->grace);
	if (s->channel.open)
		channel_close(&s->channel, on_retry_channel_closed);
	if (s->backend)
		s->ops->destroy(s->backend);
	retry_part(s);
}

static void on_destroyed(void *data)
{
	struct sandbox *s = data;

	s->backend = NULL;
	if (s->retry && !s->torn_down) {
		s->nopen--;
		retry_part(s);
		return;
	}
	admission_release(&s->vm->admission, &s->ticket);
	context_wake(&s->vm->ctx);
	sandbox_part_closed(s);
}

static const struct backend_events backend_events = {
	.up = on_up,
	.hangup = on_hangup,
	.console = on_console,
	.down = on_down,
	.destroyed = on_destroyed,
};

bool link_start(struct sandbox *s)
{
	struct backend_spec spec = {
		.name = s->name,
		.image = s->image,
		.memory_mb = s->memory_mb,
		.cpus = s->cpus,
		.processes = s->limits.processes,
		.mode = BACKEND_COLD,
		.background = s->kind != SANDBOX_USER,
		.ram = -1,
		.state = -1,
		.view = &s->view,
		.network = s->networked,
		.layer = s->layer,
	};
	struct problem p = {0};
	int stream, r, up;

	s->generation = 0;
	s->wallclock = (struct wallclock){0};
	if (s->kind == SANDBOX_BUILD || s->start == START_SNAPSHOT) {
		const struct snapshot *snap =
			s->kind == SANDBOX_BUILD ? &s->template->recording : &s->template->snapshot;

		spec.mode = s->kind == SANDBOX_BUILD ? BACKEND_RECORD : BACKEND_CLONE;
		spec.ram = snap->ram;
		spec.state = snap->state;
		/* A clone's agent has heard the machine's it was copied from. */
		s->generation = s->kind == SANDBOX_BUILD ? 0 : 1;
	}
	up = s->ops->start(&s->vm->backends, &spec, &backend_events, s, &s->backend, &stream, &p);
	if (up < 0) {
		s->backend = NULL;
		sandbox_fail(s, &p);
		return false;
	}
	s->nopen++;
	r = channel_open(&s->channel, s->vm->ctx.loop, stream, &s->vm->scratch,
			 &link_channel_events, s);
	if (r < 0) {
		problem_set(&p, "no-resources", "", "no connection to the sandbox: %s",
			    strerror(-r));
		sandbox_fail(s, &p);
		return false;
	}
	s->nopen++;
	if (up)
		on_up(s);
	return true;
}
