/* SPDX-License-Identifier: Apache-2.0 */
/* Machines with nothing to do stand still. See still.h. */
#include "still.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "vm/base/log.h"
#include "vm/base/problem.h"

/*
 * Theory of operation
 * -------------------
 *	AWAKE -> ASKED -> STOPPING -> STOPPED
 *	any -> AWAKE: a frame is about to be sent
 *
 * An idle machine is not idle: its kernel has timers, each of which wakes QEMU some times. So when nothing was sent or
 * received for a moment, and nothing is under way that we know of, its agent is asked (REST); if nothing in it would miss
 * the time (RESTING, agent/still.h), the backend stops it. Whatever is sent to it later lets it go on first, so nobody
 * above knows of this. A stream of runs never pays for it: there is no such moment.
 *
 * Order. What is sent while the answer is under way makes that answer worthless: it was about the time before.
 * So a frame ends ASKED, and only an answer that finds us there counts. The frames and the backend's commands go through
 * two sockets, between which there is no order. That does no harm: each stop is followed by a cont if any frame is sent
 * behind it, by the same socket, so the machine goes on in the end whichever QEMU reads first; and what has
 * reached its port meanwhile waits there. What it sent before it stopped arrives, as ever.
 *
 * Time. A machine's clocks stand still with it (CLOCK_REALTIME as well, under emulation always, with KVM if it has kvmclock).
 * Behind the cont goes the right time (WAKE), to which the agent sets a clock that is behind, before it reads the frame for
 * which all this is; then the usual question (clock.h) for the rest. HELLO tells the time itself. CLOCK_MONOTONIC has not
 * counted the time.
 *
 * If the answer is no, it is asked again later, and each time later, for as long as nothing is asked of it. Questions
 * for the time and for usage, which nobody has asked, change nothing in that.
 */

#define AFTER_MS 300u /* without a frame: many streams of runs have shorter breaks than this */
#define AFTER_POOL_MS \
	100u /* of one that nobody owns yet: it was exercised, and more will not come */
#define AGAIN_MS  1000u
#define SELDOM_MS 60000u

static const char *const state_str[] = {
	[STILL_AWAKE] = "goes on",
	[STILL_ASKED] = "is asked whether it may stand still",
	[STILL_STOPPING] = "is to stand still",
	[STILL_STOPPED] = "stands still",
};
static_assert(ARRAY_SIZE(state_str) == STILL_NSTATES, "words for each state");

static void enter(struct guest *g, enum still_state state)
{
	g->still.state = state;
	tell_owner(g, touched);
	log_trace(&g->label, "guest", "%s", state_str[state]);
}

static uint64_t after_ms(const struct guest *g)
{
	return g->background ? AFTER_POOL_MS : AFTER_MS;
}

static void on_timer(uv_timer_t *timer);

static void arm(struct guest *g, uint64_t ms)
{
	uv_timer_start(&g->still.timer, on_timer, ms, 0);
}

/* ---- stopping ---- */

static void on_went_on(void *data, const char *error)
{
	guest_failf(data, PROBLEM_AGENT_LOST, "Reset the session.",
		    "the machine stood still, and did not go on: %s", error);
}

static void go_on(struct guest *g)
{
	int r;

	enter(g, STILL_AWAKE);
	r = g->ops->cont(g->backend, on_went_on);
	if (r == -EPIPE)
		guest_hangup(g);
	else if (r < 0)
		on_went_on(g, strerror(-r));
}

/* Asks later, and the next time later still. */
static void be_patient(struct guest *g)
{
	struct guest_still *s = &g->still;

	s->patience = s->patience ? MIN(2 * s->patience, (uint64_t)SELDOM_MS) : AGAIN_MS;
	arm(g, s->patience);
}

static void on_stopped(void *data, const char *error)
{
	struct guest *g = data;
	struct guest_still *s = &g->still;

	assert(s->unanswered);
	/* The answer to one that was undone meanwhile tells nothing. */
	if (--s->unanswered || s->state != STILL_STOPPING || g->phase == GUEST_ENDING)
		return;
	if (!error) {
		enter(g, STILL_STOPPED);
		return;
	}
	log_trace(&g->label, "guest", "can't stand still: %s", error);
	go_on(g);
	s->patience = SELDOM_MS;
	arm(g, s->patience);
}

static void stop(struct guest *g)
{
	if (g->ops->stop(g->backend, on_stopped) < 0) {
		enter(g, STILL_AWAKE);
		be_patient(g);
		return;
	}
	g->still.unanswered++;
	enter(g, STILL_STOPPING);
}

/* ---- asking ---- */

/* Is something under way of which the agent need not be asked? What ends it touches us again. */
static bool is_occupied(const struct guest *g)
{
	return g->phase != GUEST_UP || g->exec.id || guest_has_jobs(g) || g->due != DUE_NOTHING ||
	       g->freezing || g->pack.maker || g->pack.from || g->point || !g->channel.open ||
	       g->channel.lost || (g->clock.heard && !g->clock.settled) ||
	       file_calls_under_way(&g->files.calls);
}

static void on_timer(uv_timer_t *timer)
{
	struct guest *g = timer->data;
	struct guest_still *s = &g->still;
	const uint64_t quiet = uv_now(g->all->ctx->loop) - s->busy_at;

	if (s->state != STILL_AWAKE || is_occupied(g))
		return;
	if (quiet < after_ms(g)) {
		arm(g, after_ms(g) - quiet);
		return;
	}
	if (g->usage_stale) { /* it won't be asked while it stands still */
		guest_ask_usage(g);
		arm(g, after_ms(g));
		return;
	}
	if (channel_send(&g->channel, PROTO_REST, ++s->id, NULL, 0) < 0)
		be_patient(g);
	else
		enter(g, STILL_ASKED);
}

static void take_why(char *out, size_t size, struct proto_str words)
{
	size_t n = 0;

	for (uint32_t i = 0; i < words.len && n + 1 < size; i++) {
		if (words.data[i] >= 0x20 && words.data[i] < 0x7f)
			out[n++] = words.data[i];
	}
	out[n] = '\0';
}

int still_on_resting(struct guest *g, uint32_t id, struct proto_in *in)
{
	struct guest_still *s = &g->still;
	const uint32_t yes = get_u32(in);
	const struct proto_str why = get_str(in, PROTO_RESTING_MAX);

	if (!get_end(in) || yes > 1)
		return -EPROTO;
	if (s->state != STILL_ASKED || id != s->id)
		return 0;
	take_why(s->why, sizeof(s->why), why);
	if (yes) {
		stop(g);
		return 0;
	}
	enter(g, STILL_AWAKE);
	log_trace(&g->label, "guest", "%s", s->why);
	be_patient(g);
	return 0;
}

/* ---- what happens meanwhile ---- */

void still_touch(struct guest *g)
{
	struct guest_still *s = &g->still;

	if (!g->all->stand_still || !g->ops->stop)
		return;
	s->busy_at = uv_now(g->all->ctx->loop);
	if (s->state == STILL_AWAKE && !uv_is_active((uv_handle_t *)&s->timer))
		arm(g, after_ms(g));
}

/* What is sent for reasons of our own does not mean that there is something to do. */
static bool is_ours(unsigned type)
{
	return type == PROTO_CLOCK || type == PROTO_USAGE || type == PROTO_PING;
}

/* The clock is put right before anything else is read. */
static void send_wake(struct guest *g)
{
	struct channel_frame *f = channel_frame_new(PROTO_WAKE, 0, 8);
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (!f)
		return; /* the question that follows has it corrected as well, a moment later */
	put_u64(&f->out, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
	channel_push(&g->channel, f, CHANNEL_CONTROL);
}

static void wake(struct guest *g, unsigned type)
{
	go_on(g);
	if (type == PROTO_HELLO || g->phase == GUEST_ENDING)
		return;
	send_wake(g);
	guest_clock_ask(g);
}

void still_on_push(struct guest *g, unsigned type)
{
	struct guest_still *s = &g->still;

	if (type == PROTO_REST || type == PROTO_WAKE)
		return;
	if (s->patience && !is_ours(type)) {
		s->patience = 0;
		uv_timer_stop(&s->timer); /* for still_touch() */
	}
	if (s->state == STILL_ASKED)
		enter(g, STILL_AWAKE);
	else if (s->state != STILL_AWAKE)
		wake(g, type);
	still_touch(g);
}

bool still_is_still(const struct guest *g)
{
	return g->still.state == STILL_STOPPING || g->still.state == STILL_STOPPED;
}

bool still_has_stopped(const struct guest *g)
{
	return g->still.state == STILL_STOPPED;
}

unsigned guests_still(const struct guests *all)
{
	const struct guest *g;
	unsigned n = 0;

	TAILQ_FOREACH(g, &all->list, link)
		n += still_has_stopped(g) && g->phase != GUEST_ENDING;
	return n;
}

void guest_stir(struct guest *g)
{
	if (g->phase == GUEST_ENDING || !still_is_still(g))
		return;
	wake(g, PROTO_PING);
	still_touch(g);
}
