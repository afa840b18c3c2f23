/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's life: from the wait for a place to the end of everything it had. */
#include "internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "vm/base/log.h"
#include "vm/sandbox/network.h"
#include "vm/pool/template_job.h"
#include "vm/base/problem.h"
#include "vm/vm_internal.h"

/*
 * Theory of operation
 * -------------------
 *	WAITING -> STARTING -> READY <-> RUNNING
 *	    \         |  ^       |         |
 *	     \        |  +-reset-+         |
 *	      +-------+----> CLOSING <-----+---> closed
 *
 * Every way to the end goes through sandbox_end(): it only marks the sandbox as CLOSING, so it may
 * be called from anywhere, in particular from a call of the seam, in which no callback may run. The
 * loop then calls sandbox_work(), which ends the active run, answers the file requests, and takes
 * everything down; the results are out before the machine is. When the last handle is closed and
 * the last process reaped, `closed` is called and the memory freed.
 *
 * The place in the admission is given back when the machine's memory is really free.
 *
 * Whatever waits for the agent has a deadline, of which there is one at a time: the phase's until
 * the sandbox is up, then the run's. Between them heartbeats find an agent that fell silent. They
 * count beats instead of reading the clock, because a daemon that was stopped for a while must not
 * take its own absence for the agent's.
 */

#define BEAT_MS	    5000
#define BEATS_IDLE  8 /* without a frame, before an agent counts as dead */
#define RESTORE_MS  15000ull
#define BEATS_BUSY  14 /* while user code keeps the guest busy */
#define TEARDOWN_MS 10000u
#define BEATS_CLOCK 6 /* between questions for the time, while there is other traffic */

static const char *const state_str[] = {
	[SANDBOX_WAITING] = "waiting", [SANDBOX_STARTING] = "starting", [SANDBOX_READY] = "ready",
	[SANDBOX_RUNNING] = "running", [SANDBOX_CLOSING] = "closing",
};
static_assert(ARRAY_SIZE(state_str) == SANDBOX_NSTATES, "a name for each state");

static const char *const outcome_str[] = {
	[VM_DONE] = "done", [VM_TIMEOUT] = "timeout", [VM_KILLED] = "killed",
	[VM_OOM] = "oom",   [VM_LOST] = "lost",	      [VM_REFUSED] = "refused",
};
static_assert(ARRAY_SIZE(outcome_str) == VM_NOUTCOMES, "a name for each outcome");

static const char *const start_str[] = {
	[START_COLD] = "cold",
	[START_SNAPSHOT] = "snapshot",
	[START_WARM] = "warm",
};
static_assert(ARRAY_SIZE(start_str) == START_NKINDS, "a name for each way to start");

const char *sandbox_state_str(enum sandbox_state state)
{
	return state_str[state];
}

const char *vm_outcome_str(enum vm_outcome outcome)
{
	return outcome_str[outcome];
}

/* ---- states ---- */

static void report_wait(struct sandbox *s)
{
	struct problem p;

	if (!s->awaits)
		return;
	s->awaits = false;
	if (!s->events->awaits)
		return;
	if (s->phase == PHASE_PACKAGES)
		installer_explain(s, &p);
	else
		imager_explain(s, &p);
	s->events->awaits(s->data, &p);
}

static void report(struct sandbox *s)
{
	static const char is_clone[] = "xsbxfs: a clone of a machine that had booted before\n";

	if (s->state == s->reported || s->state == SANDBOX_CLOSING ||
	    (s->state == SANDBOX_READY && !network_is_ready(s)))
		return;
	if (s->state == SANDBOX_READY && s->start != START_COLD && !s->introduced && s->ops->save)
		s->events->console(s->data, is_clone, sizeof(is_clone) - 1);
	s->introduced = s->state == SANDBOX_READY || s->introduced;
	s->reported = s->state;
	s->events->state(s->data, s->state);
}

void sandbox_set_state(struct sandbox *s, enum sandbox_state state)
{
	if (s->state == SANDBOX_CLOSING || s->state == state)
		return;
	s->state = state;
	context_defer(&s->vm->ctx, &s->work);
}

/* The one way to the end; @problem is NULL if it was asked for. */
static void sandbox_end(struct sandbox *s, const struct problem *problem)
{
	if (s->state == SANDBOX_CLOSING)
		return;
	s->asked = !problem;
	if (problem)
		s->problem = *problem;
	s->state = SANDBOX_CLOSING;
	network_let_go(s);
	context_defer(&s->vm->ctx, &s->work);
}

/* A clone that does not come up is no reason to let its user down. */
static bool retries(struct sandbox *s, const struct problem *problem)
{
	if (s->kind != SANDBOX_USER || s->start != START_SNAPSHOT || s->state == SANDBOX_CLOSING ||
	    s->vm->ctx.closing || s->vm->ctx.spawner_lost ||
	    (s->phase != PHASE_BOOT && s->phase != PHASE_SETUP))
		return false;
	template_clone_failed(s->template, problem);
	s->retry = RETRY_WANTED;
	context_defer(&s->vm->ctx, &s->work);
	return true;
}

void sandbox_give_up(struct sandbox *s, const struct problem *problem)
{
	if (s->kind == SANDBOX_USER && s->state != SANDBOX_CLOSING)
		s->vm->failed++;
	sandbox_end(s, problem);
}

void sandbox_fail(struct sandbox *s, const struct problem *problem)
{
	if (!s->retry && !retries(s, problem))
		sandbox_give_up(s, problem);
}

void sandbox_close(struct sandbox *s)
{
	sandbox_end(s, NULL);
}

/* ---- deadlines ---- */

static void no_place(struct sandbox *s)
{
	struct problem p;
	const char *fix;
	char why[256];

	admit_explain(s, why, sizeof(why), &fix);
	s->vm->refused++;
	problem_set(&p, "no-place", fix, "no place for another sandbox in %u s: %s",
		    s->vm->admission_s, why);
	sandbox_fail(s, &p);
}

/* It was killed, and is not gone: it sits in the kernel, waiting for a disk that does not answer,
 * for example. Nobody waits for it but its place. */
static void lingers(struct sandbox *s)
{
	s->lingers = true;
	context_wake(&s->vm->ctx);
	log_warn("%s: killed %u s ago, and not gone yet; its place stays taken", s->name,
		 TEARDOWN_MS / 1000);
	context_event(&s->vm->ctx, "lingering", "%s: killed %u s ago, and not gone yet", s->name,
		      TEARDOWN_MS / 1000);
}

static void on_deadline(uv_timer_t *timer)
{
	struct sandbox *s = timer->data;

	if (s->torn_down)
		lingers(s);
	if (s->state == SANDBOX_CLOSING)
		return;
	switch (s->phase) {
	case PHASE_WAIT: no_place(s); break;
	case PHASE_IMAGE: imager_overdue(s); break;
	case PHASE_PACKAGES: installer_overdue(s); break;
	case PHASE_BOOT:
	case PHASE_SETUP:
	case PHASE_WARM:
	case PHASE_SAVE:
	case PHASE_RESET: link_overdue(s); break;
	case PHASE_SETTLE:
		s->phase = PHASE_SAVE;
		sandbox_deadline(s, s->vm->boot_s * 1000ull);
		template_settled(s);
		break;
	case PHASE_UP: turn_overdue(s); break;
	case SANDBOX_NPHASES: break;
	}
}

void sandbox_deadline(struct sandbox *s, uint64_t ms)
{
	s->allowed_ms = ms;
	if (ms)
		uv_timer_start(&s->deadline, on_deadline, ms, 0);
	else
		uv_timer_stop(&s->deadline);
}

void sandbox_ask_usage(struct sandbox *s)
{
	s->usage_stale = false;
	channel_send(&s->channel, PROTO_USAGE, 0, NULL, 0);
	network_ask_traffic(s);
}

static void agent_silent(struct sandbox *s)
{
	struct problem p;

	problem_set(
		&p, "agent-silent", "Reset the session; the machine hung or had no memory left.",
		"the agent in the sandbox has not answered for %u s", s->unheard * BEAT_MS / 1000);
	sandbox_fail(s, &p);
}

static void on_heartbeat(uv_timer_t *timer)
{
	struct sandbox *s = timer->data;
	const bool busy = s->state == SANDBOX_RUNNING;

	if (s->state == SANDBOX_CLOSING || s->phase != PHASE_UP) {
		s->unheard = 0;
		return;
	}
	if (s->unheard >= (busy ? BEATS_BUSY : BEATS_IDLE)) {
		agent_silent(s);
		return;
	}
	turn_look(s);
	if (busy || s->usage_stale)
		sandbox_ask_usage(s);
	if ((!busy && s->unheard) || ++s->beats % BEATS_CLOCK == 0)
		wallclock_ask(s);
	s->unheard++;
}

static void on_grace(uv_timer_t *timer)
{
	struct sandbox *s = timer->data;
	struct problem p;

	problem_set(&p, "agent-lost", "Reset the session.",
		    "the connection to the agent in the sandbox is lost");
	sandbox_fail(s, &p);
}

/* ---- the way up ---- */

void sandbox_go(struct sandbox *s)
{
	s->vm->starts[s->start] += s->kind == SANDBOX_USER;
	/* A restore takes milliseconds; what takes longer than this is stuck. */
	if (s->start == START_SNAPSHOT)
		sandbox_deadline(s, MIN(RESTORE_MS, s->vm->boot_s * 1000ull));
	if (s->state == SANDBOX_CLOSING)
		return;
	/* Also if it fails: a clone that can't be started is replaced by a machine that boots. */
	uv_timer_start(&s->heartbeat, on_heartbeat, BEAT_MS, BEAT_MS);
	link_start(s);
}

void sandbox_admitted(struct ticket *t)
{
	struct sandbox *s = container_of(t, struct sandbox, ticket);

	s->vm->started++;
	s->admitted_at = uv_now(s->vm->ctx.loop);
	s->phase = PHASE_BOOT;
	sandbox_deadline(s, s->vm->boot_s * 1000ull);
	sandbox_set_state(s, SANDBOX_STARTING);
	report(s);
	if (s->state != SANDBOX_CLOSING && template_prepare(s))
		template_start(s);
}

void sandbox_may_run(struct slot *slot)
{
	struct sandbox *s = container_of(slot, struct sandbox, slot);

	if (s->state == SANDBOX_READY && s->reported == SANDBOX_READY)
		s->events->state(s->data, SANDBOX_READY);
	/* What was to run may have been withdrawn; if it is only put off, it will claim again. */
	if (s->state != SANDBOX_RUNNING && slot->state == SLOT_HELD) {
		slots_release(&s->vm->slots, slot);
		context_wake(&s->vm->ctx);
	}
}

void link_hangup(struct sandbox *s)
{
	if (s->state != SANDBOX_CLOSING && !s->retry && !uv_is_active((uv_handle_t *)&s->grace))
		uv_timer_start(&s->grace, on_grace, 500, 0);
}

/* ---- the end ---- */

static void on_timer_closed(uv_handle_t *handle)
{
	sandbox_part_closed(handle->data);
}

void sandbox_part_closed(struct sandbox *s)
{
	struct vm *vm = s->vm;

	if (--s->nopen == 1 && s->torn_down)
		uv_close((uv_handle_t *)&s->deadline, on_timer_closed);
	if (s->nopen)
		return;
	context_undefer(&vm->ctx, &s->work);
	s->events->closed(s->data, s->asked ? NULL : &s->problem);
	if (s->template)
		s->template->refs--;
	s->layer = layer_put(s->layer);
	sandbox_spec_free(s);
	vm_forget(vm, s);
	free(s);
}

static void on_channel_closed(void *data)
{
	sandbox_part_closed(data);
}

static void tear_down(struct sandbox *s)
{
	s->torn_down = true;
	turn_abandon(s);
	template_leave(s);
	imager_leave(&s->vm->imager, s);
	installer_leave(&s->vm->installer, s);
	slots_release(&s->vm->slots, &s->slot);
	guestfile_fail(&s->files, -ESTALE);
	if (s->ticket.state == TICKET_WAITING)
		admission_release(&s->vm->admission, &s->ticket);
	if (s->backend && s->retry != RETRY_ENDING)
		s->ops->destroy(s->backend);
	else if (!s->backend)
		admission_release(&s->vm->admission, &s->ticket);
	context_wake(&s->vm->ctx);
	if (s->channel.open)
		channel_close(&s->channel, on_channel_closed);
	network_close(s);
	/* This one watches over the others, and goes last. */
	sandbox_deadline(s, TEARDOWN_MS);
	uv_close((uv_handle_t *)&s->heartbeat, on_timer_closed);
	uv_close((uv_handle_t *)&s->grace, on_timer_closed);
}

void sandbox_work(struct sandbox *s)
{
	if (s->state != SANDBOX_CLOSING && s->retry == RETRY_WANTED)
		link_retry(s);
	else if (s->state == SANDBOX_CLOSING && !s->torn_down)
		tear_down(s);
	else if (s->state != SANDBOX_CLOSING) {
		report_wait(s);
		report(s);
	}
}

/* ---- the seam ---- */

static FILE *open_statm(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	return fopen(path, "re");
}

static uint64_t rss_kib(pid_t pid)
{
	_cleanup_file_ FILE *f = open_statm(pid);
	const char *resident;
	char line[128];

	if (!f || !fgets(line, sizeof(line), f))
		return 0;
	resident = strchr(line, ' ');
	if (!resident)
		return 0;
	return strtoull(resident, NULL, 10) * ((uint64_t)sysconf(_SC_PAGESIZE) / 1024);
}

void sandbox_info(const struct sandbox *s, struct sandbox_info *ret_info)
{
	struct backend_info b = {.accel = ""};

	if (s->backend)
		s->ops->info(s->backend, &b);
	*ret_info = (struct sandbox_info){
		.state = s->state,
		.backend = s->ops->name,
		.start = start_str[s->start],
		.accel = b.accel,
		.pid = b.pid,
		.interpreter = s->interpreter,
		.rss_kib = b.pid ? rss_kib(b.pid) : 0,
	};
	if (s->admitted_at)
		ret_info->waited_ms = s->admitted_at - s->asked_at;
	if (s->hello_at)
		ret_info->boot_ms = s->hello_at - s->admitted_at;
	if (s->ready_at)
		ret_info->setup_ms = s->ready_at - s->hello_at;
}

int sandbox_usage(const struct sandbox *s, struct sandbox_usage *ret_usage)
{
	if (!s->usage_known)
		return -ENODATA;
	*ret_usage = s->usage;
	return 0;
}

int sandbox_file(struct sandbox *s, const struct vm_file *req, vm_file_fn fn, void *data)
{
	if (s->state == SANDBOX_CLOSING || (s->phase != PHASE_UP && s->phase != PHASE_RESET))
		return -ESTALE;
	s->usage_stale = true;
	return guestfile_request(&s->files, req, fn, data);
}

static int send_freeze(struct sandbox *s, uint32_t on)
{
	uint8_t payload[4];
	struct proto_out o = {payload, 0, sizeof(payload), false};

	put_u32(&o, on);
	return channel_send(&s->channel, PROTO_FREEZE, 0, payload, o.len) < 0 ? -ENOMEM : 0;
}

int sandbox_freeze(struct sandbox *s)
{
	int r = s->state == SANDBOX_READY && !s->freezing ? send_freeze(s, 1) : -EBUSY;

	s->freezing = s->freezing || r == 0;
	return r;
}

void sandbox_thaw(struct sandbox *s)
{
	if (s->state == SANDBOX_READY)
		(void)send_freeze(s, 0);
}

int sandbox_reset(struct sandbox *s)
{
	if (s->state != SANDBOX_READY)
		return -EBUSY;
	if (channel_send(&s->channel, PROTO_RESET, 0, NULL, 0) < 0)
		return -ENOMEM;
	s->phase = PHASE_RESET;
	sandbox_deadline(s, s->vm->boot_s * 1000ull);
	sandbox_set_state(s, SANDBOX_STARTING);
	return 0;
}
