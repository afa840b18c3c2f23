/* SPDX-License-Identifier: Apache-2.0 */
/* The pool: idle guests ready to be taken, and all other background work. */
#include "pool.h"

#include <string.h>
#include <sys/sysinfo.h>

#include "vm/base/log.h"
#include "vm/image/layer.h"

/*
 * Theory of operation
 * -------------------
 * An idle clone is a guest like any other, set up and exercised, whose events come here; taking it
 * means to give it another owner, see guest_introduce(). Nothing is asked of it at that moment: that
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

#define TICK_MS	    50u
#define WATCH_MS    15000u
#define IDLE_MS	    600000u  /* ms without use: no pool */
#define UNLOAD_MS   1200000u /* ms without use: no snapshot in memory */
#define RETRY_MS    5000u    /* after a clone that did not start, */
#define REST_MS	    60000u   /* after many: each takes the spawner's time */
#define AD_HOC_MAX  4u	     /* templates that are not as the configuration says, with snapshots */
#define AD_HOC_USES 2u	     /* sandboxes before there is one */

/* ---- idle guests ---- */

static void unlist(struct idle *i)
{
	struct template *t = i->template;

	TAILQ_REMOVE(&t->idle, i, link);
	if (i->ready)
		t->nready--;
	else
		t->nfilling--;
}

static void on_up(void *data)
{
	struct idle *i = data;
	struct template *t = i->template;

	template_clone_works(t);
	if (i->ready)
		return;
	unlist(i);
	i->ready = true;
	t->nready++;
	TAILQ_INSERT_HEAD(&t->idle, i, link);
	t->refill_ms = uv_now(t->pool->ctx->loop) - i->asked_at;
	t->refill_sum_ms += t->refill_ms;
	t->refills++;
	/* There may be more than are wanted: the target can fall meanwhile. */
	context_event(t->pool->ctx, "pool", "%s: %u ready, %u wanted, the last after %llu ms",
		      t->spec.image, t->nready, t->want.target, (unsigned long long)t->refill_ms);
	context_work(t->pool->ctx);
}

static void fill_failed(struct template *t, const struct problem *problem)
{
	template_clone_failed(t, problem);
	/* With snapshots, template_clone_failed() has a new one made after a few failures, and that is waited for. */
	if (t->state == TEMPLATE_PLAIN)
		t->retry_at = uv_now(t->pool->ctx->loop) +
			      MIN(RETRY_MS << MIN(t->clone_failures - 1, 4u), REST_MS);
}

static void on_closed(void *data, const struct problem *problem)
{
	struct idle *i = data;
	struct template *t = i->template;

	unlist(i);
	t->refs--;
	admission_release(t->pool->admission, &i->ticket);
	if (t->pool->ctx->closing) /* everything is being ended */
		problem = NULL;
	if (problem && !i->ready)
		fill_failed(t, problem);
	else if (problem)
		log_info("an idle clone of %s ended: %s", t->spec.image, problem->cause);
	context_work(t->pool->ctx);
	free(i);
}

static const struct guest_events idle_events = {
	.up = on_up,
	.closed = on_closed,
};

static bool fill(struct template *t)
{
	struct idle *i = calloc(1, sizeof(*i));

	if (!i)
		return false;
	i->template = t;
	i->asked_at = uv_now(t->pool->ctx->loop);
	view_stamp(&t->spec, i->shown);
	if (!template_start(t, t->ops->save ? MACHINE_CLONE : MACHINE_COLD, &i->ticket,
			    &idle_events, i, &i->guest)) {
		free(i);
		return false;
	}
	t->refs++;
	t->nfilling++;
	TAILQ_INSERT_TAIL(&t->idle, i, link);
	return true;
}

/* Have files of the host that it shows been replaced or removed since it was started? */
static bool is_stale(const struct idle *i)
{
	char now[DIGEST_HEX];

	view_stamp(&i->template->spec, now);
	return strcmp(now, i->shown) != 0;
}

static bool is_well(const struct idle *i)
{
	return i->ready && guest_is_up(i->guest) && !guest_is_silent(i->guest) &&
	       !guest_hung_up(i->guest) && !is_stale(i);
}

struct guest *pool_take(struct template *t, struct ticket *ticket)
{
	struct guest *g = NULL;
	struct idle *i;

	TAILQ_FOREACH(i, &t->idle, link) {
		if (is_well(i))
			break;
	}
	context_work(t->pool->ctx);
	if (!i) {
		t->misses++;
		return NULL;
	}
	t->hits++;
	g = i->guest;
	unlist(i);
	t->refs--;
	admission_move(t->pool->admission, &i->ticket, ticket);
	free(i);
	return g;
}

unsigned pool_places(const struct pool *p)
{
	const struct template *t;
	unsigned n = 0;

	TAILQ_FOREACH(t, &p->templates, link)
		n += t->nready + t->nfilling + (t->builder ? 1 : 0);
	return n;
}

/* Return: the idle guest to give up first: one not ready yet, or the oldest; or NULL. */
static struct idle *last_open(const struct template *t)
{
	struct idle *i;

	TAILQ_FOREACH_REVERSE(i, &t->idle, idle_list, link) {
		if (!guest_is_ending(i->guest))
			return i;
	}
	return NULL;
}

static bool is_going(const struct guest *g)
{
	return guest_is_ending(g) && !guest_lingers(g);
}

/* Is one ending already? */
static bool any_is_going(const struct pool *p)
{
	const struct template *t;
	const struct idle *i;

	TAILQ_FOREACH(t, &p->templates, link) {
		if (t->builder && is_going(t->builder))
			return true;
		TAILQ_FOREACH(i, &t->idle, link)
			if (is_going(i->guest))
				return true;
	}
	return false;
}

bool pool_yield(struct pool *p)
{
	struct idle *i, *victim = NULL;
	struct template *t;

	/* One at a time: the one that is ending may be enough; if not, this is called again. */
	if (any_is_going(p))
		return true;
	TAILQ_FOREACH(t, &p->templates, link) {
		if (t->builder && !guest_is_ending(t->builder)) {
			guest_close(t->builder);
			return true;
		}
		i = last_open(t);
		if (i && (!victim || t->used_at < victim->template->used_at))
			victim = i;
	}
	if (victim)
		guest_close(victim->guest);
	return victim;
}

void pool_close(struct pool *p)
{
	struct template *t;

	uv_timer_stop(&p->timer);
	TAILQ_FOREACH(t, &p->templates, link) {
		template_empty(t);
		if (t->builder)
			guest_close(t->builder);
	}
}

/* ---- the background ---- */

/* Work in progress that users are waiting for. */
struct load {
	bool starting; /* or waiting for a place */
	bool loading;  /* a snapshot is read */
	unsigned busy; /* runs, and clones being made */
};

static struct load look(const struct pool *p)
{
	struct load l = {
		.starting = admission_contended(p->admission) || p->ops->starting(p->data),
		.busy = p->slots->held,
	};
	const struct template *t;

	TAILQ_FOREACH(t, &p->templates, link) {
		l.loading = l.loading || t->state == TEMPLATE_LOADING;
		l.busy += t->nfilling + (t->builder ? 1 : 0);
	}
	return l;
}

static bool is_to_go(const struct idle *i, uint64_t now)
{
	const uint64_t age_ms = i->template->want.age_s * 1000ull;
	struct guest_info info;

	guest_info(i->guest, &info);
	return guest_is_silent(i->guest) || is_stale(i) || (age_ms && now - info.ready_at > age_ms);
}

/* Ends one of those that are too old or silent, if there are good ones. Return: number of clones that are good or
 * starting; *ret_bad is that of the others, whose places will be free. */
static unsigned renew(struct template *t, uint64_t now, unsigned *ret_bad)
{
	struct idle *i, *bad = NULL;
	unsigned good = 0, nbad = 0;

	TAILQ_FOREACH(i, &t->idle, link) {
		if (!i->ready || guest_is_ending(i->guest))
			continue;
		if (is_to_go(i, now)) {
			bad = i;
			nbad++;
		} else {
			good++;
		}
	}
	*ret_bad = nbad;
	if (bad && good)
		guest_close(bad->guest);
	return good + t->nfilling;
}

/* Is it used too rarely to be worth a snapshot? */
static bool is_rare(const struct template *t)
{
	return t->ad_hoc && t->uses < AD_HOC_USES;
}

/* If too many ad hoc templates have a snapshot, drops that of the one unused for longest. */
static void drop_ad_hoc(struct pool *p)
{
	struct template *t, *oldest = NULL;
	unsigned n = 0;

	TAILQ_FOREACH(t, &p->templates, link) {
		if (!t->ad_hoc || (t->state != TEMPLATE_READY && t->state != TEMPLATE_BUILDING))
			continue;
		n++;
		if (!oldest || t->used_at < oldest->used_at)
			oldest = t;
	}
	if (n <= AD_HOC_MAX)
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
		template_empty(t);
	if (unused > UNLOAD_MS && t->state == TEMPLATE_READY && TAILQ_EMPTY(&t->idle)) {
		snapshot_close(&t->snapshot);
		t->state = TEMPLATE_UNKNOWN;
	}
	if (unused > UNLOAD_MS && !t->builder && TAILQ_EMPTY(&t->idle))
		t->layer = layer_put(t->layer);
}

/* Gets a template with prepare = yes ready before it is used. */
static void look_ahead(struct template *t, struct load *l, uint64_t now)
{
	if (!t->prepared)
		return;
	if (!t->refreshed_at || now - t->refreshed_at >= WATCH_MS) {
		template_refresh(t);
		t->refreshed_at = t->key[0] ? now : 0;
		if (!t->key[0] && image_jobs_lacks(t->pool->images, t->ops, t->spec.image_view,
						   t->spec.image, false))
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
	if (is_rare(t))
		return false;
	/* Fetching a snapshot takes no processor from anybody. */
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
	struct pool *p = t->pool;
	unsigned have, bad;
	bool room;

	rest(t, now);
	look_ahead(t, l, now);
	if ((!t->prepared && now - t->used_at > IDLE_MS) || !template_layer(t))
		return false;
	if (t->state != TEMPLATE_READY && t->state != TEMPLATE_PLAIN)
		return attend_snapshot(t, l, now, cpus);
	have = renew(t, now, &bad);
	room = 2 * (pool_places(p) - bad + 1) <= p->admission->limits.places;
	if (have >= t->want.target)
		t->refilling = false;
	else if (have < MAX(t->want.low, 1u))
		t->refilling = true;
	if (!t->refilling)
		return false;
	/* A pool that is not empty also waits until processors are free of runs. */
	if (!room || l->starting || t->nfilling ||
	    (t->state == TEMPLATE_PLAIN && now < t->retry_at) || (have && l->busy >= cpus))
		return room;
	if (fill(t))
		l->busy++;
	return true;
}

static void on_tick(uv_timer_t *timer)
{
	struct pool *p = timer->data;
	const unsigned cpus = (unsigned)MAX(get_nprocs(), 1);
	const uint64_t now = uv_now(p->ctx->loop);
	struct load l = look(p);
	bool more = false;
	struct template *t;

	if (p->ctx->closing)
		return;
	drop_ad_hoc(p);
	TAILQ_FOREACH(t, &p->templates, link) {
		if (attend(t, &l, now, cpus))
			more = true;
	}
	if (!TAILQ_EMPTY(&p->templates))
		uv_timer_start(&p->timer, on_tick, more ? TICK_MS : WATCH_MS, 0);
}

void pool_wake(struct pool *p)
{
	if (!p->ctx->closing)
		uv_timer_start(&p->timer, on_tick, TICK_MS, 0);
}

void pool_init(struct pool *p)
{
	TAILQ_INIT(&p->templates);
	uv_timer_init(p->ctx->loop, &p->timer);
	p->timer.data = p;
}
