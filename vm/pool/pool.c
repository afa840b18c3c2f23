/* SPDX-License-Identifier: Apache-2.0 */
/* The pool: idle guests ready to be taken, and all other background work. */
#include "pool.h"

#include <string.h>
#include <sys/sysinfo.h>

#include "ad_hoc.h"
#include "record.h"
#include "vm/base/log.h"
#include "vm/image/layer.h"

/*
 * Theory of operation
 * -------------------
 * An idle clone is a guest like any other, set up and exercised, whose events come here; taking it
 * changes its owner, see guest_introduce(). It is not pinged at that moment: its heartbeats show that it
 * is alive, and a machine that exits leaves the pool at once.
 *
 * If none is idle, a user gets the one that is being made: it has a lead over one that would be started then. What
 * is left of its exercises is skipped, and it hears of its owner when it is up. If none is being made, there is one
 * that stands by: all of a machine but its memory, which is restored when it is wanted, by a user or for the pool.
 *
 * A clone with an unanswered ping is passed over, and replaced once another one is ready. If it is only
 * slow, it becomes usable again; if it is dead, its heartbeats end it.
 *
 * A clone is exercised, and then has translated, read and imported what programs need first; while sessions come faster
 * than that can be done, it is exercised no more than is needed for a quick answer, and replaced when it is quiet. So is
 * always what is no clone, but started for its session alone.
 *
 * The pool is filled up to its target when there are fewer than its low-water mark. Each session that finds it empty, once
 * there was a clone in it, raises both by one, as far as is allowed; each half minute without such a session lowers them
 * again.
 *
 * The background has one timer. It runs while there is something to do or to watch. Clones are made
 * while no sandbox waits for a place and processors are idle; one is made in any case if the pool has
 * none and no sandbox is starting. They have places in the admission, at most half of
 * all, and give them up as soon as anybody waits for a place: pool_yield(). What stands by gives its place up for a
 * template that has no clone at all.
 *
 * What shows files of the host is given to nobody while it is not known whether these still have the names that they had
 * when it was started, see view_stamp(), and is not made then either: a server may have to be asked, which whoever gets
 * nothing here has the spawner do.
 *
 * A clone that is too old is replaced, not removed: it goes when a younger one is ready. A template
 * that was not used for a while loses its clones, and later the snapshot's memory, unless it is to be
 * prepared always.
 */

#define SOON_MS	     10u
#define TICK_MS	     50u
#define WATCH_MS     15000u
#define STANDBY	     1u
#define FIRST_RUN_MS 50u
#define QUIET_MS     30000u   /* without a session that found none: one less than there was */
#define STUCK_MS     2000u    /* after which a start is not one that a user should take over */
#define IDLE_MS	     600000u  /* ms without use: no pool */
#define UNLOAD_MS    1200000u /* ms without use: no snapshot in memory */
#define RETRY_MS     5000u    /* after a clone that did not start, */
#define REST_MS	     60000u   /* after many: each takes the spawner's time */

/* ---- idle guests ---- */

static void unlist(struct idle *i)
{
	struct template *t = i->template;

	TAILQ_REMOVE(&t->idle, i, link);
	t->nidle[i->state]--;
}

static void set_state(struct idle *i, enum idle_state state)
{
	struct template *t = i->template;

	unlist(i);
	i->state = state;
	t->nidle[state]++;
	if (state == IDLE_READY)
		TAILQ_INSERT_HEAD(&t->idle, i, link);
	else
		TAILQ_INSERT_TAIL(&t->idle, i, link);
}

static void on_up(void *data)
{
	struct idle *i = data;
	struct template *t = i->template;

	template_clone_works(t);
	if (i->state == IDLE_READY)
		return;
	set_state(i, IDLE_READY);
	t->refill_ms = uv_now(t->pool->ctx->loop) - i->asked_at;
	t->refill_sum_ms += t->refill_ms;
	t->refills++;
	t->filled = true;
	t->standby_failures = 0;
	/* There may be more than are wanted: the target can fall meanwhile. */
	context_event(t->pool->ctx, "pool", "%s: %u ready, %u wanted, the last after %llu ms",
		      t->spec.image, t->nidle[IDLE_READY], t->want.target,
		      (unsigned long long)t->refill_ms);
	context_work(t->pool->ctx);
}

/* Return: ms until another one is started, after @failures in a row. */
static uint64_t back_off_ms(unsigned failures)
{
	return MIN(RETRY_MS << MIN(failures - 1, 4u), REST_MS);
}

static void fill_failed(struct template *t, const struct problem *problem)
{
	template_clone_failed(t, problem);
	/* With snapshots, template_clone_failed() has a new one made after a few failures, and that is waited for. */
	if (t->state == TEMPLATE_PLAIN)
		t->retry_at = uv_now(t->pool->ctx->loop) + back_off_ms(t->clone_failures);
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
	if (problem && i->state == IDLE_FILLING)
		fill_failed(t, problem);
	else if (problem)
		log_info("an idle clone of %s ended: %s", t->spec.image, problem->cause);
	/* Its snapshot was not even read, and is not to blame. */
	if (problem && i->state == IDLE_STANDBY)
		t->standby_at = uv_now(t->pool->ctx->loop) + back_off_ms(++t->standby_failures);
	context_work(t->pool->ctx);
	free(i);
}

static const struct guest_events idle_events = {
	.up = on_up,
	.closed = on_closed,
};

/* Where there are no snapshots, what is exercised in full would cost each session more than all else: it would
 * import what most programs never do. And do sessions come faster than the pool is filled? Then the next is worth more
 * than one that is exercised in full. */
static bool is_brief(const struct template *t)
{
	return !t->ops->save || t->grown;
}

/* Starts one, in @state. */
static bool add(struct template *t, enum idle_state state)
{
	struct idle *i = calloc(1, sizeof(*i));

	if (!i)
		return false;
	i->template = t;
	i->state = state;
	i->brief = is_brief(t);
	i->asked_at = uv_now(t->pool->ctx->loop);
	if (view_stamp(&t->spec, i->shown) < 0 ||
	    !template_start(t, t->ops->save ? MACHINE_CLONE : MACHINE_COLD, i->brief,
			    state == IDLE_STANDBY, &i->ticket, &idle_events, i, &i->guest)) {
		free(i);
		return false;
	}
	t->refs++;
	t->nidle[state]++;
	TAILQ_INSERT_TAIL(&t->idle, i, link);
	return true;
}

/* Is it known what has the names that its sandboxes show? If not, nobody gets what was made ahead. */
static bool is_known(const struct template *t)
{
	char now[DIGEST_HEX];

	return view_stamp(&t->spec, now) == 0;
}

/* Does it show the files of the host that have their names now? Not so if that is not known. */
static bool is_current(const struct idle *i)
{
	char now[DIGEST_HEX];

	return view_stamp(&i->template->spec, now) == 0 && strcmp(now, i->shown) == 0;
}

/* Is it known that they have been replaced since it was started? */
static bool is_stale(const struct idle *i)
{
	char now[DIGEST_HEX];

	return view_stamp(&i->template->spec, now) == 0 && strcmp(now, i->shown) != 0;
}

static bool is_well(const struct idle *i)
{
	return i->state == IDLE_READY && guest_is_up(i->guest) && !guest_is_silent(i->guest) &&
	       !guest_hung_up(i->guest) && is_current(i);
}

static struct guest *hand_over(struct idle *i, struct ticket *ticket)
{
	struct guest *g = i->guest;

	unlist(i);
	i->template->refs--;
	admission_move(i->template->pool->admission, &i->ticket, ticket);
	free(i);
	return g;
}

/* ---- its size ---- */

unsigned pool_wanted(const struct template *t)
{
	/* `most` can have fallen since it grew. */
	return t->want.target ? MAX(MIN(t->want.target + t->grown, t->want.most), t->want.target)
			      : 0;
}

/* A session has found none. */
static void grow(struct template *t)
{
	/* Before there was one to be found, that says nothing. */
	if (!t->filled || !t->want.target || !is_known(t))
		return;
	t->grown += pool_wanted(t) < t->want.most;
	t->grown_at = uv_now(t->pool->ctx->loop);
}

/* Nobody has found it empty for a while: one less. */
static void shrink(struct template *t, uint64_t now)
{
	if (!t->grown || now - t->grown_at < QUIET_MS)
		return;
	t->grown--;
	t->grown_at = now;
}

/* ---- taking from it ---- */

struct guest *pool_take(struct template *t, struct ticket *ticket)
{
	struct idle *i;

	TAILQ_FOREACH(i, &t->idle, link) {
		if (is_well(i))
			break;
	}
	context_work(t->pool->ctx);
	if (!i) {
		t->misses++;
		grow(t);
		return NULL;
	}
	t->hits++;
	t->taken_at = uv_now(t->pool->ctx->loop);
	return hand_over(i, ticket);
}

/* Is it starting, and not for so long that it seems to be stuck? */
static bool is_coming(const struct idle *i)
{
	return i->state == IDLE_FILLING &&
	       uv_now(i->template->pool->ctx->loop) - i->asked_at < STUCK_MS &&
	       !guest_is_ending(i->guest) && !guest_hung_up(i->guest) && is_current(i);
}

/* Return: the one that stands by, or NULL. */
static struct idle *standby_of(const struct template *t)
{
	struct idle *i;

	TAILQ_FOREACH(i, &t->idle, link) {
		if (i->state == IDLE_STANDBY)
			break;
	}
	return i;
}

/* Return: one that stands by, and starts from now on; or NULL. */
static struct idle *rouse(struct template *t)
{
	struct idle *i = standby_of(t);

	if (!i || guest_is_ending(i->guest) || guest_hung_up(i->guest))
		return NULL;
	set_state(i, IDLE_FILLING);
	i->asked_at = uv_now(t->pool->ctx->loop);
	i->brief = is_brief(t);
	guest_restore(i->guest, i->brief);
	return i;
}

struct guest *pool_take_early(struct template *t, struct ticket *ticket)
{
	struct idle *i;

	TAILQ_FOREACH(i, &t->idle, link) {
		if (is_coming(i))
			break;
	}
	if (!i)
		i = rouse(t);
	return i ? hand_over(i, ticket) : NULL;
}

unsigned pool_places(const struct pool *p)
{
	const struct template *t;
	unsigned n = 0;

	TAILQ_FOREACH(t, &p->templates, link) {
		n += t->builder ? 1 : 0;
		for (size_t s = 0; s < IDLE_NSTATES; s++)
			n += t->nidle[s];
	}
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
	bool waiting;	   /* for a place */
	bool loading;	   /* a snapshot is read */
	bool lacking;	   /* a template has no clone at all */
	unsigned starting; /* sandboxes of users */
	unsigned busy;	   /* these, runs, and clones being made */
	uint64_t next; /* ms of the loop's clock: then something is tried again, at the latest */
};

/* Was it used lately, or is it to be ready always? */
static bool is_used(const struct template *t, uint64_t now)
{
	return t->prepared || now - t->used_at <= IDLE_MS;
}

/* Has it no clone at all, though it could have? */
static bool is_lacking(const struct template *t, uint64_t now)
{
	if (!t->want.target || t->nidle[IDLE_READY] || t->nidle[IDLE_FILLING] || !is_used(t, now))
		return false;
	if (t->state != TEMPLATE_READY && (t->state != TEMPLATE_PLAIN || now < t->retry_at))
		return false;
	return is_known(t);
}

static struct load look(const struct pool *p, uint64_t now)
{
	struct load l = {
		.next = now + WATCH_MS,
		.waiting = admission_contended(p->admission),
		.starting = p->ops->starting(p->data),
	};
	const struct template *t;

	l.busy = l.starting + p->slots->held;
	TAILQ_FOREACH(t, &p->templates, link) {
		l.loading = l.loading || t->state == TEMPLATE_LOADING;
		l.busy += t->nidle[IDLE_FILLING] + (t->builder ? 1 : 0);
		l.lacking = l.lacking || is_lacking(t, now);
	}
	return l;
}

static bool is_to_go(const struct idle *i, uint64_t now)
{
	const uint64_t age_ms = i->template->want.age_s * 1000ull;
	struct guest_info info;

	guest_info(i->guest, &info);
	return guest_is_silent(i->guest) || is_stale(i) ||
	       (age_ms && now - info.ready_at > age_ms) || (i->brief && !is_brief(i->template));
}

/* Ends one of those that are too old or silent, if there are good ones. Return: number of clones that are good or
 * starting; *ret_bad is that of the others, whose places will be free. */
static unsigned renew(struct template *t, uint64_t now, unsigned *ret_bad)
{
	struct idle *i, *bad = NULL;
	unsigned good = 0, nbad = 0;

	TAILQ_FOREACH(i, &t->idle, link) {
		if (i->state != IDLE_READY || guest_is_ending(i->guest))
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
	return good + t->nidle[IDLE_FILLING];
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
	if (unused > IDLE_MS) {
		template_empty(t);
		t->filled = false;
	}
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
	if (!l->waiting && !l->starting && !l->loading)
		template_load(t);
	l->loading = l->loading || t->state == TEMPLATE_LOADING;
}

/* Is it @at yet? If not, that is looked at again then. */
static bool is_time(struct load *l, uint64_t now, uint64_t at)
{
	if (now < at)
		l->next = MIN(l->next, at);
	return now >= at;
}

/* Return: true if there is more to do. */
static bool attend_snapshot(struct template *t, struct load *l, uint64_t now, unsigned cpus)
{
	if (t->state == TEMPLATE_UNKNOWN)
		return t->prepared && t->key[0];
	if (t->state != TEMPLATE_NONE)
		return false;
	if (ad_hoc_is_rare(t, now))
		return false;
	/* Fetching a snapshot takes no processor from anybody. */
	if (template_fetch(t))
		return true;
	if (!is_time(l, now, t->retry_at))
		return false;
	if (l->waiting || l->starting || l->busy >= cpus || t->builder)
		return true;
	if (!record_start(t))
		return false;
	l->busy++;
	return true;
}

/* Has one stand by for whoever finds the pool empty, and for its next filling. Return: true if there is more to do. */
static bool attend_standby(struct template *t, struct load *l, uint64_t now, unsigned cpus,
			   bool room)
{
	if (!t->ops->restore || t->state != TEMPLATE_READY || !t->want.target ||
	    t->nidle[IDLE_STANDBY] >= STANDBY || !room || l->lacking ||
	    !is_time(l, now, t->standby_at))
		return false;
	if (l->waiting || l->busy >= cpus)
		return true;
	if (!add(t, IDLE_STANDBY))
		return false;
	l->busy++;
	return true;
}

/* Has what stands by for the template unused for longest make room for a clone. Return: is there such a one, or is
 * room being made? */
static bool spare_place(struct pool *p)
{
	struct template *t, *oldest = NULL;

	if (any_is_going(p))
		return true;
	TAILQ_FOREACH(t, &p->templates, link) {
		if (t->nidle[IDLE_STANDBY] && (!oldest || t->used_at < oldest->used_at))
			oldest = t;
	}
	if (oldest)
		guest_close(standby_of(oldest)->guest);
	return oldest;
}

/* Ends the oldest of those that are more than wanted. */
static void trim(struct template *t, unsigned have)
{
	struct idle *i;

	if (have <= pool_wanted(t))
		return;
	TAILQ_FOREACH_REVERSE(i, &t->idle, idle_list, link) {
		if (i->state == IDLE_READY && !guest_is_ending(i->guest)) {
			guest_close(i->guest);
			return;
		}
	}
}

/* Return: true if there is more to do. */
static bool attend(struct template *t, struct load *l, uint64_t now, unsigned cpus)
{
	struct pool *p = t->pool;
	unsigned have, bad;
	bool room;

	rest(t, now);
	look_ahead(t, l, now);
	if (!is_used(t, now) || !template_layer(t))
		return false;
	if (t->state != TEMPLATE_READY && t->state != TEMPLATE_PLAIN)
		return attend_snapshot(t, l, now, cpus);
	have = renew(t, now, &bad);
	room = 2 * (pool_places(p) - bad + 1) <= p->admission->limits.places;
	shrink(t, now);
	trim(t, have);
	if (have >= pool_wanted(t))
		t->refilling = false;
	else if (have < MAX(t->want.low + t->grown, 1u))
		t->refilling = true;
	/* The first run of who has just taken one is not to be disturbed. */
	if (now - t->taken_at < FIRST_RUN_MS && p->slots->held)
		return true;
	if (!t->refilling)
		return attend_standby(t, l, now, cpus, room);
	/* What stands by has its place. */
	if (!room && !t->nidle[IDLE_STANDBY])
		return is_lacking(t, now) && spare_place(p);
	if (t->state == TEMPLATE_PLAIN && !is_time(l, now, t->retry_at))
		return false;
	/* The first one does not wait until processors are free of runs. */
	if (l->waiting || ((have || l->starting) && l->busy >= cpus))
		return true;
	if (!is_known(t) || (!rouse(t) && (!room || !add(t, IDLE_FILLING))))
		return false;
	l->busy++;
	return true;
}

static void on_tick(uv_timer_t *timer)
{
	struct pool *p = timer->data;
	const uint64_t now = uv_now(p->ctx->loop);
	struct load l = look(p, now);
	bool more = false;
	struct template *t;

	if (p->ctx->closing)
		return;
	ad_hoc_drop(p);
	TAILQ_FOREACH(t, &p->templates, link) {
		if (attend(t, &l, now, p->cpus))
			more = true;
	}
	if (!TAILQ_EMPTY(&p->templates))
		uv_timer_start(&p->timer, on_tick, more ? TICK_MS : l.next - now, 0);
}

void pool_wake(struct pool *p)
{
	/* Later calls don't put it off. */
	if (!p->ctx->closing &&
	    (!uv_is_active((uv_handle_t *)&p->timer) || uv_timer_get_due_in(&p->timer) > SOON_MS))
		uv_timer_start(&p->timer, on_tick, SOON_MS, 0);
}

void pool_init(struct pool *p)
{
	TAILQ_INIT(&p->templates);
	p->cpus = (unsigned)MAX(get_nprocs(), 1);
	uv_timer_init(p->ctx->loop, &p->timer);
	p->timer.data = p;
}
