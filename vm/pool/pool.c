/* SPDX-License-Identifier: Apache-2.0 */
/* Idle clones that wait for somebody to need them, and everything else done in the background. */
#include "pool.h"

#include <sys/sysinfo.h>

#include "vm/base/log.h"
#include "template_job.h"
#include "vm/vm_internal.h"

/*
 * Theory of operation
 * -------------------
 * An idle clone is a sandbox like any other, set up and exercised, whose events come here; taking it
 * means to give it another owner, see sandbox_adopt(). Nothing is asked of it at that moment: that
 * it is well is known from its heartbeats, and a machine that ends is out of the pool at once.
 *
 * A clone that has left a ping unanswered is passed over, and replaced when another one is there. If
 * it is only slow it comes back; if it is dead its heartbeats end it.
 *
 * The pool is filled up to its target when there are fewer than its low-water mark.
 *
 * The background has one timer. It runs while there is something to do or to watch. Clones are made
 * one after the other, and only when no sandbox is starting or waits for a place; if the pool still
 * has one, also only while processors are idle. They have places in the admission, at most half of
 * all, and give them up as soon as anybody waits for a place: pool_yield().
 *
 * A clone that is too old is replaced, not removed: it goes when a younger one is ready. A template
 * that was not used for a while loses its clones, and later the snapshot's memory, unless it is to be
 * prepared always.
 *
 * Sandboxes that are not as their template says (more memory, another number of processors) are of a
 * template of their own, which gets a snapshot at its second use. Of these only a few keep one.
 */

#define TICK_MS	  50u
#define WATCH_MS  15000u
#define IDLE_MS	  600000u  /* ms without use: no pool */
#define UNLOAD_MS 1200000u /* ms without use: no snapshot in memory */
#define RETRY_MS  5000u	   /* after a clone that did not start, */
#define REST_MS	  60000u   /* after many: each takes the spawner's time */
#define SILENT	  3u	   /* heartbeats without a frame: a ping was not answered for a whole one */
#define ODD_MAX	  4u	   /* templates that are not as the configuration says, with snapshots */
#define ODD_USES  2u	   /* sandboxes before there is one */

/* ---- the clones ---- */

static void out_of_pool(struct sandbox *s)
{
	struct template *t = s->template;

	TAILQ_REMOVE(&t->pool, s, template_link);
	if (s->pooled == POOLED_READY)
		t->nready--;
	else
		t->nfilling--;
	s->pooled = POOLED_NOT;
}

static void on_state(void *data, enum sandbox_state state)
{
	struct sandbox *s = data;
	struct template *t = s->template;

	if (state != SANDBOX_READY || s->pooled != POOLED_FILLING)
		return;
	out_of_pool(s);
	s->pooled = POOLED_READY;
	t->nready++;
	/* Of one with snapshots, that is known earlier. */
	if (t->state == TEMPLATE_PLAIN)
		template_clone_works(t);
	TAILQ_INSERT_HEAD(&t->pool, s, template_link);
	t->refill_ms = uv_now(t->vm->ctx.loop) - s->asked_at;
	t->refill_sum_ms += t->refill_ms;
	t->refills++;
	/* There may be more than are wanted: the target can fall meanwhile. */
	context_event(&t->vm->ctx, "pool", "%s: %u ready, %u wanted, the last after %llu ms",
		      t->image, t->nready, t->want.target, (unsigned long long)t->refill_ms);
	context_work(&t->vm->ctx);
}

static void fill_failed(struct template *t, const struct problem *problem)
{
	template_clone_failed(t, problem);
	/* One with snapshots has to make a new one after a few, and waits for that. */
	if (t->state == TEMPLATE_PLAIN)
		t->retry_at = uv_now(t->vm->ctx.loop) +
			      MIN(RETRY_MS << MIN(t->clone_failures - 1, 4u), REST_MS);
}

static void on_closed(void *data, const struct problem *problem)
{
	struct sandbox *s = data;
	struct template *t = s->template;
	const bool filling = s->pooled == POOLED_FILLING;

	if (s->pooled != POOLED_NOT)
		out_of_pool(s);
	if (s->vm->ctx.closing) /* whatever ends now does so because all does */
		problem = NULL;
	if (problem && filling)
		fill_failed(t, problem);
	else if (problem)
		log_info("an idle clone of %s ended: %s", t->image, problem->cause);
	context_work(&t->vm->ctx);
}

static const struct sandbox_events pool_events = {
	.state = on_state,
	.console = sandbox_unheard_console,
	.output = sandbox_unheard_output,
	.exit = sandbox_unheard_exit,
	.closed = on_closed,
};

static bool fill(struct template *t)
{
	struct sandbox *s = sandbox_background(t, SANDBOX_POOL, &pool_events);

	if (!s)
		return false;
	s->pooled = POOLED_FILLING;
	t->nfilling++;
	TAILQ_INSERT_TAIL(&t->pool, s, template_link);
	return true;
}

/* Nothing has been heard of it for longer than a ping takes. */
static bool is_silent(const struct sandbox *s)
{
	/* The channel's end may be seen before its machine's: then it is only a matter of moments. */
	return s->channel.lost || uv_is_active((const uv_handle_t *)&s->grace) ||
	       s->unheard >= SILENT;
}

/* Does it show what has other names on the host by now, or none? */
static bool is_stale(const struct sandbox *s)
{
	char now[DIGEST_HEX];

	view_stamp(&s->view, now);
	return strcmp(now, s->shown) != 0;
}

struct sandbox *pool_take(struct template *t)
{
	struct sandbox *s;

	TAILQ_FOREACH(s, &t->pool, template_link) {
		if (s->pooled == POOLED_READY && s->state == SANDBOX_READY &&
		    s->reported == SANDBOX_READY && !is_silent(s) &&
		    !channel_hung_up(&s->channel) && !is_stale(s)) {
			out_of_pool(s);
			t->hits++;
			context_work(&t->vm->ctx);
			return s;
		}
	}
	t->misses++;
	context_work(&t->vm->ctx);
	return NULL;
}

void pool_empty(struct template *t)
{
	struct sandbox *s;

	TAILQ_FOREACH(s, &t->pool, template_link)
		sandbox_close(s);
}

unsigned pool_places(const struct vm *vm)
{
	const struct template *t;
	unsigned n = 0;

	TAILQ_FOREACH(t, &vm->templates, link)
		n += t->nready + t->nfilling + (t->builder ? 1 : 0);
	return n;
}

/* The one that is given up first: not ready yet, or the oldest. */
static struct sandbox *last_open(const struct template *t)
{
	struct sandbox *s;

	TAILQ_FOREACH_REVERSE(s, &t->pool, sandbox_list, template_link) {
		if (s->state != SANDBOX_CLOSING)
			return s;
	}
	return NULL;
}

bool pool_yield(struct vm *vm)
{
	struct sandbox *s, *victim = NULL;
	struct template *t;

	/* One at a time: what is on its way out will do, or the next call. */
	TAILQ_FOREACH(s, &vm->sandboxes, link) {
		if (s->kind != SANDBOX_USER && s->state == SANDBOX_CLOSING && !s->lingers)
			return true;
	}
	TAILQ_FOREACH(t, &vm->templates, link) {
		if (t->builder && t->builder->state != SANDBOX_CLOSING) {
			sandbox_close(t->builder);
			return true;
		}
		s = last_open(t);
		if (s && (!victim || t->used_at < victim->template->used_at))
			victim = s;
	}
	if (victim)
		sandbox_close(victim);
	return victim;
}

/* ---- the background ---- */

/* How busy the machinery is with what somebody waits for. */
struct load {
	bool starting; /* or waiting for a place */
	bool loading;  /* a snapshot is read */
	unsigned busy; /* runs, and clones being made */
};

static struct load look(struct vm *vm)
{
	struct load l = {.starting = admission_contended(&vm->admission)};
	const struct template *t;
	const struct sandbox *s;

	TAILQ_FOREACH(s, &vm->sandboxes, link) {
		if (s->kind == SANDBOX_USER && s->state == SANDBOX_STARTING)
			l.starting = true;
		if (s->state == SANDBOX_RUNNING ||
		    (s->kind != SANDBOX_USER && s->state == SANDBOX_STARTING))
			l.busy++;
	}
	TAILQ_FOREACH(t, &vm->templates, link)
		l.loading = l.loading || t->state == TEMPLATE_LOADING;
	return l;
}

static bool is_to_go(const struct sandbox *s, uint64_t now)
{
	const uint64_t age_ms = s->template->want.age_s * 1000ull;

	return is_silent(s) || is_stale(s) || (age_ms && now - s->ready_at > age_ms);
}

/* Replaces what is too old, or silent. Return: how many clones are good, or on their way; the others
 * have places that will be free, *ret_bad. */
static unsigned renew(struct template *t, uint64_t now, unsigned *ret_bad)
{
	struct sandbox *s, *bad = NULL;
	unsigned good = 0, nbad = 0;

	TAILQ_FOREACH(s, &t->pool, template_link) {
		if (s->pooled != POOLED_READY || s->state == SANDBOX_CLOSING)
			continue;
		if (is_to_go(s, now)) {
			bad = s;
			nbad++;
		} else {
			good++;
		}
	}
	*ret_bad = nbad;
	if (bad && good)
		sandbox_close(bad);
	return good + t->nfilling;
}

/* Not worth a snapshot, so far. */
static bool is_odd_and_rare(const struct template *t)
{
	return t->odd && t->uses < ODD_USES;
}

/* Of the odd ones with a snapshot, all but those used last give it up. */
static void drop_odd(struct vm *vm)
{
	struct template *t, *oldest = NULL;
	unsigned n = 0;

	TAILQ_FOREACH(t, &vm->templates, link) {
		if (!t->odd || (t->state != TEMPLATE_READY && t->state != TEMPLATE_BUILDING))
			continue;
		n++;
		if (!oldest || t->used_at < oldest->used_at)
			oldest = t;
	}
	if (n <= ODD_MAX)
		return;
	template_drop(oldest);
	oldest->uses = 0;
}

static void rest(struct template *t, uint64_t now)
{
	const uint64_t unused = now - t->used_at;

	if (t->state == TEMPLATE_BROKEN && now >= t->retry_at) {
		t->state = TEMPLATE_NONE;
		t->build_failures = 0;
	}
	if (t->prepared)
		return;
	if (unused > IDLE_MS)
		pool_empty(t);
	if (unused > UNLOAD_MS && t->state == TEMPLATE_READY && TAILQ_EMPTY(&t->pool)) {
		snapshot_close(&t->snapshot);
		t->state = TEMPLATE_UNKNOWN;
	}
	if (unused > UNLOAD_MS && !t->builder && TAILQ_EMPTY(&t->pool))
		t->layer = layer_put(t->layer);
}

/* What is to be ready before it is used does not wait for a use to be looked at. */
static void look_ahead(struct template *t, struct load *l, uint64_t now)
{
	if (!t->prepared)
		return;
	if (!t->refreshed_at || now - t->refreshed_at >= WATCH_MS) {
		template_refresh(t);
		t->refreshed_at = t->key[0] ? now : 0;
		if (!t->key[0] && imager_lacks(&t->vm->imager, t->ops, &t->view, t->image, false))
			return;
		template_install(t);
	}
	if (!l->starting && !l->loading)
		template_load(t);
	l->loading = l->loading || t->state == TEMPLATE_LOADING;
}

/* Return: true if there is more to do. */
static bool attend_snapshot(struct template *t, struct load *l, uint64_t now, unsigned cpus)
{
	if (t->state == TEMPLATE_UNKNOWN)
		return t->prepared && t->key[0];
	if (t->state != TEMPLATE_NONE)
		return false;
	if (is_odd_and_rare(t))
		return false;
	/* That costs nobody a processor. */
	if (template_fetch(t))
		return true;
	if (now >= t->retry_at && !l->starting && l->busy < cpus && !t->builder) {
		template_build(t);
		l->busy++;
	}
	return true;
}

/* Return: true if there is more to do. */
static bool attend(struct template *t, struct load *l, uint64_t now, unsigned cpus)
{
	struct vm *vm = t->vm;
	unsigned have, bad;
	bool room;

	rest(t, now);
	look_ahead(t, l, now);
	if ((!t->prepared && now - t->used_at > IDLE_MS) || !template_layer(t))
		return false;
	if (t->state != TEMPLATE_READY && t->state != TEMPLATE_PLAIN)
		return attend_snapshot(t, l, now, cpus);
	have = renew(t, now, &bad);
	room = 2 * (pool_places(vm) - bad + 1) <= vm->admission.limits.places;
	if (have >= t->want.target)
		t->refilling = false;
	else if (have < MAX(t->want.low, 1u))
		t->refilling = true;
	if (!t->refilling)
		return false;
	/* An empty pool waits for starts only, not for runs. */
	if (!room || l->starting || t->nfilling ||
	    (t->state == TEMPLATE_PLAIN && now < t->retry_at) || (have && l->busy >= cpus))
		return room;
	if (fill(t))
		l->busy++;
	return true;
}

static void on_tick(uv_timer_t *timer)
{
	struct vm *vm = timer->data;
	const unsigned cpus = (unsigned)MAX(get_nprocs(), 1);
	const uint64_t now = uv_now(vm->ctx.loop);
	struct load l = look(vm);
	bool more = false;
	struct template *t;

	if (vm->ctx.closing)
		return;
	drop_odd(vm);
	TAILQ_FOREACH(t, &vm->templates, link) {
		if (attend(t, &l, now, cpus))
			more = true;
	}
	if (!TAILQ_EMPTY(&vm->templates))
		uv_timer_start(&vm->background, on_tick, more ? TICK_MS : WATCH_MS, 0);
}

void pool_wake(struct vm *vm)
{
	if (!vm->ctx.closing)
		uv_timer_start(&vm->background, on_tick, TICK_MS, 0);
}
