/* SPDX-License-Identifier: Apache-2.0 */
/* The life cycle of a guest: deadlines, heartbeats, and cleanup. */
#include "guest.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "files_record.h"
#include "internal.h"
#include "vm/base/log.h"
#include "vm/base/problem.h"
#include "vm/checkpoint/point.h"
#include "vm/host/host.h"
#include "vm/image/layer.h"
#include "vm/jail/cgroup_stat.h"

/*
 * Theory of operation
 * -------------------
 *	[STANDBY ->] BOOT -> SETUP -> [WARM ->] UP <-> RESET		(a clone, or a normal boot)
 *	              -> WARM -> SETTLE -> SAVE		(to be saved as a snapshot)
 *	any -> ENDING -> closed
 *
 * Start-up is in handshake.c; runs, which happen within UP, are in exec.c.
 *
 * Every guest ends through end(): it only marks the guest as ENDING, so it may be called from anywhere, in
 * particular within calls of guest.h, during which no event may be emitted. The loop then ends the active
 * run, answers the file requests, and closes everything; results are reported before the machine has ended.
 * When the last handle is closed and the last process reaped, `closed` is called and the memory freed.
 *
 * Every wait for the agent has a deadline, of which there is one at a time: the phase's until the guest
 * is up, then the run's. In between, heartbeats detect an agent that does not respond; all guests have them at
 * the same time, so that an idle host is woken once. They count beats instead of reading the clock, because a
 * daemon that was stopped for a while must not mistake its own pause for the agent's; nor do beats count in which the
 * agent's machine had no processor, see starved.h. The agents of guests that
 * may be taken at any moment are asked often, those of idle sandboxes, of which there may be many for hours,
 * twice a minute: each question wakes a machine. Those that stand still (still.h) are not asked.
 */

#define BEATS_IDLE  8  /* without a frame, before an agent counts as dead */
#define BEATS_QUIET 5  /* likewise, before that of a sandbox nobody asks anything of is asked */
#define BEATS_OWNED 10 /* ... and counts as dead */
#define BEATS_BUSY  14 /* while user code keeps the guest busy */
#define BEATS_CLOCK 6  /* between questions for the time, while there is other traffic */
#define SILENT	    3u /* heartbeats without a frame: a question was not answered for a whole one */
#define GRACE_MS    500 /* for a machine whose agent is gone to say why */
#define TEARDOWN_MS 10000u

/* ---- the end ---- */

/* Ends the guest, the only way to do so; @problem is NULL if the end was asked for. */
static void end(struct guest *g, const struct problem *problem)
{
	if (g->phase == GUEST_ENDING)
		return;
	log_trace(&g->label, "guest", "ends: %s", problem ? problem->cause : "it was closed");
	g->asked = !problem;
	if (problem)
		g->problem = *problem;
	if (problem && g->importing)
		(void)imports_blame(g);
	g->phase = GUEST_ENDING;
	context_defer(g->all->ctx, &g->work);
	if (problem)
		tell_owner(g, problem, problem);
}

void guest_close(struct guest *g)
{
	end(g, NULL);
}

void guest_fail(struct guest *g, const struct problem *problem)
{
	end(g, problem);
}

void guest_failf(struct guest *g, enum problem_code code, const char *fix, const char *cause, ...)
{
	struct problem p;
	va_list ap;

	va_start(ap, cause);
	problem_setv(&p, code, fix, cause, ap);
	va_end(ap);
	end(g, &p);
}

static void on_timer_closed(uv_handle_t *handle)
{
	guest_part_closed(handle->data);
}

static void guest_free(struct guest *g)
{
	layer_put(g->layer);
	point_unref(g->point);
	spec_free(&g->spec);
	resume_fini(&g->resume);
	free(g->imports);
	free(g);
}

void guest_part_closed(struct guest *g)
{
	if (--g->nopen == 1 && g->torn_down)
		uv_close((uv_handle_t *)&g->deadline, on_timer_closed);
	if (g->nopen)
		return;
	context_undefer(g->all->ctx, &g->work);
	tell_owner(g, closed, g->asked ? NULL : &g->problem);
	TAILQ_REMOVE(&g->all->list, g, link);
	if (TAILQ_EMPTY(&g->all->list))
		uv_timer_stop(&g->all->beat);
	context_wake(g->all->ctx);
	guest_free(g);
}

static void on_channel_closed(void *data)
{
	guest_part_closed(data);
}

/* Called from the loop: takes down a guest that is ENDING. */
static void on_work(struct deferred *d)
{
	struct guest *g = container_of(d, struct guest, work);

	if (g->torn_down)
		return;
	g->torn_down = true;
	exec_abandon(g);
	jobs_abandon(g);
	guest_pack_cancel(g);
	guest_file_fail(&g->files, -ESTALE);
	guest_files_unwrite(&g->files);
	if (g->backend)
		g->ops->destroy(g->backend);
	if (g->channel.open)
		channel_close(&g->channel, on_channel_closed);
	/* The deadline watches the other parts end, so its timer is closed last. */
	guest_deadline(g, TEARDOWN_MS);
	uv_close((uv_handle_t *)&g->grace, on_timer_closed);
	uv_close((uv_handle_t *)&g->still.timer, on_timer_closed);
}

void guest_touch(struct guest *g)
{
	if (turn_is_on(g->all->ctx->turn))
		tell_owner(g, touched);
}

/* ---- deadlines ---- */

/* It was killed, but has not ended: its process sits in the kernel, waiting for a disk that does not answer,
 * for example. Nobody waits for it any longer, but its place stays taken. */
static void lingers(struct guest *g)
{
	const char *who = g->label.who && *g->label.who ? g->label.who : g->spec.name;

	g->lingers = true;
	context_wake(g->all->ctx);
	log_warn("%s: killed %u s ago, and not gone yet; its place stays taken", who,
		 TEARDOWN_MS / 1000);
	context_event(g->all->ctx, "lingering", "%s: killed %u s ago, and not gone yet", who,
		      TEARDOWN_MS / 1000);
}

static void on_deadline(uv_timer_t *timer)
{
	struct guest *g = timer->data;

	guest_touch(g);
	switch (g->phase) {
	case GUEST_ENDING:
		if (g->torn_down)
			lingers(g);
		break;
	case GUEST_SETTLE: guest_advance(g); break;
	case GUEST_UP: exec_overdue(g); break;
	case GUEST_STANDBY: break;
	case GUEST_BOOT:
	case GUEST_SETUP:
	case GUEST_WARM:
	case GUEST_SAVE:
	case GUEST_RESET: handshake_overdue(g); break;
	case GUEST_NPHASES: assert(0);
	}
}

void guest_deadline(struct guest *g, uint64_t ms)
{
	g->allowed_ms = ms;
	g->deadline_at = uv_now(g->all->ctx->loop) + ms;
	guest_touch(g);
	if (ms)
		uv_timer_start(&g->deadline, on_deadline, ms, 0);
	else
		uv_timer_stop(&g->deadline);
}

/* ---- heartbeats ---- */

void guest_ask_usage(struct guest *g)
{
	g->usage_stale = false;
	channel_send(&g->channel, PROTO_USAGE, 0, NULL, 0);
	tell_owner(g, asked);
}

static void agent_silent(struct guest *g)
{
	guest_failf(g, PROBLEM_AGENT_SILENT,
		    "Reset the session; the machine hung or had no memory left.",
		    "the agent in the sandbox has not answered for %u s",
		    g->unheard * GUEST_BEAT_MS / 1000);
}

static void heartbeat(struct guest *g)
{
	const bool busy = g->exec.id || guest_has_jobs(g);

	if (g->phase != GUEST_UP || still_is_still(g)) {
		g->unheard = 0;
		return;
	}
	if (g->unheard < SILENT)
		g->quiet.on = false;
	else if (starved_beat(&g->quiet, g))
		g->unheard--; /* that was none */
	if (g->unheard >= (busy ? BEATS_BUSY : g->background ? BEATS_IDLE : BEATS_OWNED)) {
		agent_silent(g);
		return;
	}
	if (!jobs_check(g) || !pack_check(g))
		return;
	exec_beat(g, &g->exec);
	input_drained(g);
	exec_look(g);
	if (busy || g->usage_stale)
		guest_ask_usage(g);
	if ((!busy && g->unheard >= (g->background ? 1 : BEATS_QUIET)) ||
	    g->all->beats % BEATS_CLOCK == 0)
		guest_clock_ask(g);
	g->unheard++;
}

static void on_beat(uv_timer_t *timer)
{
	struct guests *all = timer->data;
	struct guest *g;

	all->beats++;
	TAILQ_FOREACH(g, &all->list, link)
		heartbeat(g);
}

static void on_grace(uv_timer_t *timer)
{
	struct guest *g = timer->data;

	guest_failf(g, PROBLEM_AGENT_LOST, "Reset the session.",
		    "the connection to the agent in the sandbox is lost");
}

void guest_hangup(struct guest *g)
{
	if (g->phase != GUEST_ENDING && !uv_is_active((uv_handle_t *)&g->grace))
		uv_timer_start(&g->grace, on_grace, GRACE_MS, 0);
}

/* ---- beginning ---- */

void guests_init(struct guests *all)
{
	TAILQ_INIT(&all->list);
	uv_timer_init(all->ctx->loop, &all->beat);
	all->beat.data = all;
}

static void init_timer(struct guest *g, uv_timer_t *timer)
{
	uv_timer_init(g->all->ctx->loop, timer);
	timer->data = g;
	g->nopen++;
}

int guest_make(struct guests *all, const struct guest_config *cfg,
	       const struct guest_events *events, void *data, struct guest **ret_guest)
{
	struct guest *g = calloc(1, sizeof(*g));
	int r = g ? spec_copy(&g->spec, cfg->spec) : -ENOMEM;

	if (r == 0 && cfg->imports && *cfg->imports && !(g->imports = strdup(cfg->imports))) {
		spec_free(&g->spec);
		r = -ENOMEM;
	}
	if (r < 0) {
		free(g);
		return r;
	}
	g->all = all;
	g->ops = cfg->ops;
	g->events = events;
	g->data = data;
	g->label = g->spec.label;
	g->layer = layer_ref(cfg->layer);
	g->mode = cfg->mode;
	g->background = cfg->background;
	g->brief = cfg->brief;
	g->phase = cfg->standby ? GUEST_STANDBY : GUEST_BOOT;
	g->networked = g->spec.network && g->ops->take_card;
	g->version = PROTO_VERSION_OLDEST;
	g->work.run = on_work;
	TAILQ_INIT(&g->jobs);
	g->started_at = uv_now(all->ctx->loop);
	guest_file_init(&g->files, &g->channel);
	init_timer(g, &g->deadline);
	init_timer(g, &g->grace);
	init_timer(g, &g->still.timer);
	if (TAILQ_EMPTY(&all->list))
		uv_timer_start(&all->beat, on_beat, GUEST_BEAT_MS, GUEST_BEAT_MS);
	TAILQ_INSERT_TAIL(&all->list, g, link);
	*ret_guest = g;
	return 0;
}

int guest_new(struct guests *all, const struct guest_config *cfg, const struct guest_events *events,
	      void *data, struct guest **ret_guest)
{
	const int r = guest_make(all, cfg, events, data, ret_guest);

	if (r == 0)
		handshake_start(*ret_guest, cfg);
	return r;
}

void guest_restore(struct guest *g, bool brief)
{
	assert(g->phase == GUEST_STANDBY);
	g->brief = brief;
	g->started_at = uv_now(g->all->ctx->loop);
	handshake_restore(g);
}

int guest_introduce(struct guest *g, const struct sandbox_spec *spec,
		    const struct guest_events *events, void *data)
{
	struct sandbox_spec copy;
	int r = spec_copy(&copy, spec);

	g->events = events;
	g->data = data;
	if (r < 0)
		return r;
	spec_free(&g->spec);
	g->spec = copy;
	g->label = g->spec.label;
	g->background = false;
	g->exercises = 0;
	g->unheard = 0;
	/* One that was not greeted yet hears of its new owner then. */
	g->changed = g->phase != GUEST_UP && g->channel.generation;
	if (g->phase == GUEST_UP)
		handshake_again(g);
	return 0;
}

/* ---- what its owner asks for ---- */

int guest_file(struct guest *g, const struct vm_file *req, vm_file_fn fn, void *data)
{
	if (g->phase != GUEST_UP && g->phase != GUEST_RESET)
		return -ESTALE;
	if (req->op == VM_ORIGIN && g->version < PROTO_VERSION_ORIGIN)
		return -ENODATA;
	if (!g->usage_stale)
		guest_touch(g); /* it may be answered from what is known */
	g->usage_stale = true;
	return guest_file_request(&g->files, req, fn, data);
}

void guest_undo_file(struct guest *g, enum vm_file_op op, const struct vm_file_reply *reply)
{
	if (g->phase == GUEST_UP || g->phase == GUEST_RESET)
		guest_file_undo(&g->files, op, reply);
}

bool guest_changes_files(const struct guest *g)
{
	return guest_file_changes(&g->files);
}

static bool is_idle(const struct guest *g)
{
	return g->phase == GUEST_UP && !g->exec.id;
}

/* FROZEN will be the answer. */
static int ask_freeze(struct guest *g, enum proto_freeze how)
{
	struct channel_frame *f;

	if (!is_idle(g) || g->freezing || point_is_silent(g))
		return -EBUSY;
	f = channel_frame_new(PROTO_FREEZE, 0, 4);
	if (!f)
		return -ENOMEM;
	f->header.flags = how == PROTO_FREEZE_ALL ? PROTO_F_WHO : 0;
	put_u32(&f->out, how);
	channel_push(&g->channel, f, CHANNEL_CONTROL);
	g->freezing = true;
	return 0;
}

const struct guest_unstopped *guest_unstopped(const struct guest *g)
{
	return &g->unstopped;
}

int guest_freeze(struct guest *g)
{
	if (guest_has_own_jobs(g))
		return -EBUSY;
	if (!is_idle(g) || !(g->freezing || guest_has_jobs(g)))
		return ask_freeze(g, PROTO_FREEZE_ALL);
	/* An answer is due, or the end of a job, that nobody waits for any more: this question comes behind it. */
	g->freezes_again = true;
	return 0;
}

void guest_freeze_again(struct guest *g)
{
	int r;

	if (!g->freezes_again || g->freezing)
		return;
	g->freezes_again = false;
	r = guest_freeze(g);
	if (r < 0)
		tell_owner(g, frozen, r);
}

int guest_check_frozen(struct guest *g, bool thaw)
{
	return ask_freeze(g, thaw ? PROTO_THAW_CHECKED : PROTO_FREEZE_ALL);
}

void guest_thaw(struct guest *g)
{
	g->freezes_again = false;
	if (is_idle(g))
		(void)channel_send_u32(&g->channel, PROTO_FREEZE, 0, PROTO_THAW);
}

int guest_reset(struct guest *g)
{
	if (!is_idle(g))
		return -EBUSY;
	if (channel_send(&g->channel, PROTO_RESET, 0, NULL, 0) < 0)
		return -ENOMEM;
	jobs_ending(g);
	guest_pack_cancel(g);
	guest_point_cancel(g);
	g->freezes_again = false;
	g->phase = GUEST_RESET;
	/* The answer to a greeting, if that is still to come, comes first. */
	if (g->due != DUE_HELLO)
		g->due = DUE_READY;
	g->late.on = false;
	guest_deadline(g, g->all->boot_s * 1000ull);
	return 0;
}

int guest_take_card(struct guest *g, bool *ret_stream)
{
	return g->backend && g->ops->take_card ? g->ops->take_card(g->backend, ret_stream)
					       : -EOPNOTSUPP;
}

/* ---- questions ---- */

void guest_info(const struct guest *g, struct guest_info *ret_info)
{
	*ret_info = (struct guest_info){.backend = {.accel = "", .kept = -1},
					.interpreter = "",
					.culprit = "",
					.goes_on = ""};
	if (!g)
		return;
	ret_info->interpreter = g->interpreter;
	ret_info->started_at = g->started_at;
	ret_info->hello_at = g->hello_at;
	ret_info->ready_at = g->ready_at;
	ret_info->imports_unproven = g->imports_unproven;
	ret_info->import_failed = g->import_failed;
	ret_info->culprit = g->culprit;
	ret_info->stands_still = still_has_stopped(g);
	ret_info->goes_on = g->still.why;
	if (g->backend)
		g->ops->info(g->backend, &ret_info->backend);
}

/* Where no control group counts it, time of processes that have ended and were waited for by nobody is missed. */
uint64_t guest_used_us(const struct guest *g)
{
	struct backend_info b = {0};
	uint64_t us = 0;

	if (!g->backend)
		return g->used_us;
	g->ops->info(g->backend, &b);
	if (!(b.stats && cgroup_stat_used_us(b.stats, &us)) && b.pid > 0)
		(void)host_used_us(g->all->host, b.pid, !g->ops->save,
				   &us); /* QEMU has no children */
	return MAX(us, b.used_us);
}

int guest_usage(const struct guest *g, struct sandbox_usage *ret_usage)
{
	if (!g->usage_known)
		return -ENODATA;
	*ret_usage = g->usage;
	return 0;
}

bool guest_is_up(const struct guest *g)
{
	return g->phase == GUEST_UP;
}

uint32_t guest_run_id(const struct guest *g)
{
	return g->exec.id;
}

bool guest_is_ending(const struct guest *g)
{
	return g->phase == GUEST_ENDING;
}

bool guest_lingers(const struct guest *g)
{
	return g->lingers;
}

bool guest_is_silent(const struct guest *g)
{
	/* If the channel is lost, the machine's end will be seen in a moment. */
	return g->channel.lost || uv_is_active((const uv_handle_t *)&g->grace) ||
	       g->unheard >= SILENT;
}

bool guest_hung_up(const struct guest *g)
{
	return channel_hung_up(&g->channel);
}
