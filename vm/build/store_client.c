/* SPDX-License-Identifier: Apache-2.0 */
/* The shared store, through a program that may use the network. */
#include "store_client.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/wait.h>

#include "vm/base/log.h"
#include "vm/order/order.h"

/*
 * Theory of operation
 * -------------------
 * The spawner runs xsbxfs-store for each object: one fetching and one offering at a time. It gets the
 * user's credentials through its environment, and confines itself. Its output goes to `events`.
 *
 * A store that is slow, unreachable or broken must cost nothing except what it would have saved. So only
 * background work waits for it; and after two failures in a row it is not used, for half a minute at
 * first, and then twice as long each time, up to ten minutes. This is reported once. Then a single
 * request checks whether it is back.
 *
 * Objects from the store are verified by that program, against checksums that come from the store itself,
 * and authenticated if there is a secret. When a snapshot is loaded its own checksums are verified again,
 * like those of any other.
 */

#define FAILURES     2u
#define ALONE_MS     30000u
#define ALONE_MAX_MS 600000u
#define QUEUE_MAX    32u

static void lane_init(struct store_client *f, struct store_lane *lane, bool get)
{
	lane->store = f;
	lane->get = get;
	TAILQ_INIT(&lane->jobs);
}

int store_client_init(struct store_client *f, struct context *ctx, const struct vm_store *cfg)
{
	f->ctx = ctx;
	lane_init(f, &f->get, true);
	lane_init(f, &f->put, false);
	if (!cfg->url || !*cfg->url || !cfg->program || !ctx->spawner)
		return 0;
	f->read = cfg->read;
	f->write = cfg->write;
	f->program = strdup(cfg->program);
	f->url = strdup(cfg->url);
	return f->program && f->url ? 0 : -ENOMEM;
}

static void lane_fini(struct store_lane *lane)
{
	struct store_job *job;

	while ((job = TAILQ_FIRST(&lane->jobs))) {
		TAILQ_REMOVE(&lane->jobs, job, link);
		free(job);
	}
}

void store_client_fini(struct store_client *f)
{
	if (!f->ctx)
		return;
	lane_fini(&f->get);
	lane_fini(&f->put);
	free(f->program);
	free(f->url);
}

/* ---- whether the store is well ---- */

static bool is_alone(const struct store_client *f)
{
	return uv_now(f->ctx->loop) < f->again_at;
}

static void note_failure(struct store_client *f, const char *why)
{
	uint64_t ms = ALONE_MS;

	f->st.failed++;
	snprintf(f->st.problem, sizeof(f->st.problem), "%s", why);
	if (++f->failures < FAILURES)
		return;
	for (unsigned i = FAILURES; i < f->failures && ms < ALONE_MAX_MS; i++)
		ms *= 2;
	ms = MIN(ms, ALONE_MAX_MS);
	f->again_at = uv_now(f->ctx->loop) + ms;
	log_warn("the store is left alone for %" PRIu64 " s: %s", ms / 1000, why);
	context_event(f->ctx, "store", "left alone for %" PRIu64 " s: %s", ms / 1000, why);
}

static void note_answer(struct store_client *f)
{
	if (f->failures >= FAILURES)
		context_event(f->ctx, "store", "it answers again");
	f->failures = 0;
	f->again_at = 0;
	f->st.problem[0] = '\0';
}

static void note(struct store_client *f, const struct store_lane *lane, const struct store_job *job,
		 enum store_end end, const char *why)
{
	switch (end) {
	case STORE_DONE:
		*(lane->get ? &f->st.fetched : &f->st.put) += 1;
		note_answer(f);
		return;
	case STORE_ABSENT:
		f->st.absent++;
		note_answer(f);
		return;
	case STORE_DAMAGED:
		f->st.damaged++;
		note_answer(f);
		log_warn("the store's %s %.16s can't be used: %s", store_kind_str(job->kind),
			 job->key, why);
		context_event(f->ctx, "store", "%s %.16s can't be used: %.300s",
			      store_kind_str(job->kind), job->key, why);
		return;
	case STORE_FAILED:
	case STORE_USAGE:
	case STORE_AWAY:
	case STORE_NENDS: note_failure(f, why); return;
	}
}

/* ---- what the program says ---- */

static void on_line(struct lines *w, char *text)
{
	const struct store_lane *lane = w->data;

	if (*text)
		context_event(lane->store->ctx, "store", "%s", text);
}

/* ---- the program ---- */

static int begin(struct store_lane *lane, struct store_job *job);

static void end_job(struct store_lane *lane, struct store_job *job, enum store_end end,
		    const char *why)
{
	TAILQ_REMOVE(&lane->jobs, job, link);
	if (job->done)
		job->done(job->data, job->key, end, why);
	free(job);
}

static void begin_next(struct store_lane *lane)
{
	struct store_job *job;

	while (!lane->current && !lane->store->ctx->closing && (job = TAILQ_FIRST(&lane->jobs))) {
		/* Requests queued when the store becomes unreachable need not each wait for a time-out. */
		const int r = is_alone(lane->store) ? -EHOSTDOWN : begin(lane, job);

		if (r < 0)
			end_job(lane, job, STORE_AWAY, strerror(-r));
	}
}

/* The program is gone, and has said all it had to say. */
static void on_over(struct program *t)
{
	struct store_lane *lane = t->data;
	struct store_client *f = lane->store;
	struct store_job *job = steal_ptr(lane->current);
	enum store_end end = STORE_FAILED;
	char quote[400], why[500] = "";

	context_release(f->ctx);
	if (f->ctx->closing) {
		end = STORE_AWAY;
	} else if (t->failed) {
		snprintf(why, sizeof(why), "%.300s was not started: %s", f->program,
			 strerror(-t->failed));
	} else if (WIFEXITED(t->status) && WEXITSTATUS(t->status) < STORE_NENDS) {
		end = (enum store_end)WEXITSTATUS(t->status);
		if (end != STORE_DONE)
			snprintf(why, sizeof(why), "%s",
				 tail_quote(&lane->lines.said, "xsbxfs-store: ", quote,
					    sizeof(quote)));
	} else {
		snprintf(why, sizeof(why), "the program that talks to it ended: %s",
			 tail_quote(&lane->lines.said, NULL, quote, sizeof(quote)));
	}
	if (!f->ctx->closing)
		note(f, lane, job, end, why);
	end_job(lane, job, end, why);
	begin_next(lane);
}

static int begin(struct store_lane *lane, struct store_job *job)
{
	struct context *ctx = lane->store->ctx;
	struct order order = {
		.program = ORDER_STORE,
		.store = {.kind = job->kind == STORE_LAYER ? ORDER_LAYER : ORDER_SNAPSHOT,
			  .get = lane->get,
			  .anew = job->anew,
			  .limit = job->limit,
			  .tsc_khz = job->tsc_khz}};
	int r;

	order_set(order.store.key, job->key);
	lane->lines = (struct lines){.line = on_line, .data = lane};
	lane->program = (struct program){.lines = &lane->lines, .over = on_over, .data = lane};
	r = program_start(&lane->program, ctx->loop, ctx->spawner, &order, sizeof(order));
	if (r < 0)
		return r;
	lane->current = job;
	context_hold(ctx);
	return 0;
}

/* ---- asking ---- */

/* A program that can't be started is the caller's matter at once, not a callback's. */
static bool add(struct store_lane *lane, const struct store_job *what, const char *key)
{
	struct store_client *f = lane->store;
	struct store_job *job;
	unsigned n = 0;

	if (!f->url || !(lane->get ? f->read : f->write) || is_alone(f) || f->ctx->closing ||
	    f->ctx->spawner_lost || !store_key_valid(key))
		return false;
	TAILQ_FOREACH(job, &lane->jobs, link) {
		if (!lane->get && job->kind == what->kind && strcmp(job->key, key) == 0)
			return true;
		n++;
	}
	job = n < QUEUE_MAX ? malloc(sizeof(*job)) : NULL;
	if (!job)
		return false;
	*job = *what;
	snprintf(job->key, sizeof(job->key), "%s", key);
	TAILQ_INSERT_TAIL(&lane->jobs, job, link);
	if (n || begin(lane, job) == 0)
		return true;
	job->done = NULL;
	end_job(lane, job, STORE_AWAY, "");
	return false;
}

bool store_client_get(struct store_client *f, enum store_kind kind, const char *key,
		      uint64_t tsc_khz, uint64_t limit, store_fn done, void *data)
{
	const struct store_job job = {
		.kind = kind, .tsc_khz = tsc_khz, .limit = limit, .done = done, .data = data};

	return add(&f->get, &job, key);
}

void store_client_put(struct store_client *f, enum store_kind kind, const char *key,
		      uint64_t tsc_khz, bool anew)
{
	const struct store_job job = {.kind = kind, .tsc_khz = tsc_khz, .anew = anew};

	(void)add(&f->put, &job, key);
}

void store_client_status(const struct store_client *f, struct vm_store_status *ret_status)
{
	*ret_status = f->st;
	ret_status->url = f->url;
	ret_status->read = f->read;
	ret_status->write = f->write;
	ret_status->state = !f->url			       ? "none"
			    : is_alone(f)		       ? "left-alone"
			    : f->get.current || f->put.current ? "busy"
							       : "idle";
	ret_status->again_s = is_alone(f) ? (f->again_at - uv_now(f->ctx->loop) + 999) / 1000 : 0;
}

/* Who still waits in line has an answer now; whose program runs, when it is gone. */
static void cut(struct store_lane *lane)
{
	struct store_job *job, *following;

	for (job = TAILQ_FIRST(&lane->jobs); job; job = following) {
		following = TAILQ_NEXT(job, link);
		if (job != lane->current)
			end_job(lane, job, STORE_AWAY, "xsbxfs is ending");
	}
	if (lane->current)
		child_kill(&lane->program.child);
}

void store_client_cut(struct store_client *f)
{
	if (!f->url)
		return;
	cut(&f->get);
	cut(&f->put);
}
