/* SPDX-License-Identifier: Apache-2.0 */
/* Copying a guest that runs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "vm/base/log.h"
#include "vm/checkpoint/point.h"
#include "vm/image/layer.h"

/*
 * Theory of operation
 * -------------------
 * Whatever is on its way in the machine's rings at that moment would be in each copy as well, where nobody has asked for
 * it or waits for it. So POINT is the last that is sent, the agent says POINTED when it has said all else, and then
 * there is silence on both sides until the copy is made. The first frame afterwards wakes this agent, and HELLO of another
 * generation that of a copy.
 *
 * It does not matter what user code does meanwhile: whoever wants it to stand still, freezes it between POINT_READY and
 * POINT_ASKED, and lets it go on from POINT_RUNS on.
 *
 *	NONE -> PREPARES -> READY -> ASKED -> COPIED -> RUNS -> NONE
 *
 * From each of them one comes to NONE with an error, and by guest_point_cancel() to CANCELLED, until the backend has put
 * everything away.
 */

/* Both sides are silent, or will be. */
bool point_is_silent(const struct guest *g)
{
	return g->point_step == POINT_ASKED || g->point_step == POINT_COPIED;
}

/* Nothing more of it is to be in a copy. */
static void speak(struct guest *g)
{
	channel_hold(&g->channel, false);
	/* The agent has to hear something, and the clock has stood still. */
	guest_clock_ask(g);
}

/* It is made, or is not: the guest goes on. */
static void over(struct guest *g, int err)
{
	struct point *p = steal_ptr(g->point);
	const bool wanted = g->point_step != POINT_CANCELLED;

	log_trace(&g->label, "guest", "is %scopied: %s", err ? "not " : "",
		  err ? strerror(-err) : "it goes on");
	if (point_is_silent(g))
		speak(g);
	g->point_step = POINT_NONE;
	if (wanted)
		tell_owner(g, pointed, err, err < 0 ? point_unref(p) : p);
	else
		point_unref(p);
}

/* Both have to be. */
static void prepared(struct guest *g)
{
	if (g->phase == GUEST_ENDING || g->point_step != POINT_PREPARES || !g->point_ready ||
	    g->preparing)
		return;
	g->point_step = POINT_READY;
	tell_owner(g, point_ready);
}

static void on_ready(void *data)
{
	struct guest *g = data;

	g->point_ready = true;
	prepared(g);
}

/* Whether it is, the agent does not say. */
void point_on_prepared(struct guest *g)
{
	g->preparing = false;
	prepared(g);
}

static void on_runs(void *data)
{
	struct guest *g = data;

	if (g->phase == GUEST_ENDING || g->point_step != POINT_COPIED)
		return;
	g->point_step = POINT_RUNS;
	speak(g);
	tell_owner(g, runs);
}

static void on_copied(void *data, int err)
{
	struct guest *g = data;

	if (g->phase != GUEST_ENDING && g->point)
		over(g, g->point_err ? g->point_err : err);
}

static const struct backend_point_events events = {on_ready, on_runs, on_copied};

/* No copy comes of it; what has prepared for one says so. */
static void give_up(struct guest *g, int err)
{
	g->point_err = err;
	g->ops->point_cancel(g->backend);
}

int point_on_pointed(struct guest *g, const struct proto_header *h, struct proto_in *in)
{
	const uint32_t error = get_u32(in);

	if (!get_end(in) || error > 4095 || h->id <= g->points_answered || h->id > g->points_asked)
		return -EPROTO;
	g->points_answered = h->id;
	if (g->point_step != POINT_ASKED || h->id != g->points_asked) {
		guest_clock_ask(g); /* another process wanted it; the agent is to hear something */
		return 0;
	}
	g->point_step = POINT_COPIED;
	if (error)
		give_up(g, -(int)error);
	else
		g->ops->point_copy(g->backend);
	return 0;
}

int guest_interpreter_sum(const struct sandbox_spec *spec, char ret_hex[DIGEST_HEX])
{
	const unsigned limits[] = {spec->limits.processes, spec->limits.open_files,
				   spec->limits.file_size_mb};
	struct digest *d = digest_new();

	if (!d)
		return -ENOMEM;
	digest_add(d, spec->language, strlen(spec->language) + 1);
	digest_add(d, limits, sizeof(limits));
	for (size_t i = 0; i < spec->nenv; i++) {
		digest_add(d, spec->env[i].name, strlen(spec->env[i].name) + 1);
		digest_add(d, spec->env[i].value, strlen(spec->env[i].value) + 1);
	}
	return digest_end(d, ret_hex);
}

int guest_point_begin(struct guest *g)
{
	int r;

	if (!g->ops->point)
		return -EOPNOTSUPP;
	if (g->phase != GUEST_UP || g->due != DUE_NOTHING || g->exec.id || g->freezing ||
	    g->point || guest_has_jobs(g))
		return -EBUSY;
	g->point = point_new();
	if (!g->point)
		return -ENOMEM;
	r = guest_interpreter_sum(&g->spec, g->point->fit.interpreter);
	if (r == 0)
		r = g->ops->point(g->backend, g->point, &events);
	if (r < 0) {
		g->point = point_unref(g->point);
		return r;
	}
	/* If it can't be asked, what it would have done takes time later, and nothing else. */
	g->preparing = channel_send_u32(&g->channel, PROTO_FREEZE, 0, PROTO_FREEZE_PREPARE) == 0;
	g->freezing = g->preparing;
	g->point_step = POINT_PREPARES;
	g->point_ready = false;
	g->point_err = 0;
	g->point->generation = g->generation;
	g->point->layer = layer_ref(g->layer);
	g->point->fit.memory_mb = g->spec.memory_mb;
	g->point->fit.cpus = g->spec.cpus;
	g->point->fit.network = g->spec.network;
	g->point->fit.root = g->spec.root;
	g->point->fit.layer = g->layer;
	return 0;
}

int guest_point(struct guest *g)
{
	struct channel_frame *f;

	if (g->phase != GUEST_UP || g->due != DUE_NOTHING || g->exec.id || g->freezing ||
	    g->point_step != POINT_READY || guest_has_jobs(g))
		return -EBUSY;
	f = channel_frame_new(PROTO_POINT, g->points_asked + 1, 0);
	if (!f)
		return -ENOMEM;
	g->points_asked++;
	g->point_step = POINT_ASKED;
	channel_push(&g->channel, f, CHANNEL_BULK); /* behind all that is queued */
	channel_hold(&g->channel, true);
	return 0;
}

void guest_point_cancel(struct guest *g)
{
	if (!g->point)
		return;
	if (point_is_silent(g))
		speak(g);
	g->point_step = POINT_CANCELLED;
	g->ops->point_cancel(g->backend);
}
