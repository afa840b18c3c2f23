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
 * It does not matter what user code does meanwhile: whoever wants it to stand still, freezes it before.
 */

/* It is made, or is not: the guest goes on. */
static void over(struct guest *g, int err)
{
	struct point *p = steal_ptr(g->point);

	log_trace(&g->label, "guest", "is %scopied: %s", err ? "not " : "",
		  err ? strerror(-err) : "it goes on");
	g->pointed = false;
	channel_hold(&g->channel, false);
	/* The agent has to hear something, and the clock has stood still. */
	guest_clock_ask(g);
	tell_owner(g, pointed, err, err < 0 ? point_unref(p) : p);
}

static void on_copied(void *data, int err)
{
	struct guest *g = data;

	if (g->phase != GUEST_ENDING && g->point)
		over(g, err);
}

int point_on_pointed(struct guest *g, const struct proto_header *h, struct proto_in *in)
{
	const uint32_t error = get_u32(in);
	int r;

	if (!get_end(in) || error > 4095 || h->id <= g->points_answered || h->id > g->points_asked)
		return -EPROTO;
	g->points_answered = h->id;
	if (!g->point || h->id != g->points_asked) {
		guest_clock_ask(g); /* another process wanted it; the agent is to hear something */
		return 0;
	}
	g->pointed = true;
	r = error ? -(int)error : g->ops->point(g->backend, g->point, on_copied);
	if (r < 0)
		over(g, r);
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

int guest_point(struct guest *g)
{
	struct channel_frame *f;

	if (!g->ops->point)
		return -EOPNOTSUPP;
	if (g->phase != GUEST_UP || g->due != DUE_NOTHING || g->exec.id || g->freezing ||
	    g->point || guest_has_jobs(g))
		return -EBUSY;
	f = channel_frame_new(PROTO_POINT, g->points_asked + 1, 0);
	g->point = point_new();
	if (!f || !g->point) {
		free(f);
		g->point = point_unref(g->point);
		return -ENOMEM;
	}
	if (guest_interpreter_sum(&g->spec, g->point->fit.interpreter) < 0) {
		free(f);
		g->point = point_unref(g->point);
		return -ENOMEM;
	}
	g->points_asked++;
	g->point->generation = g->generation;
	g->point->layer = layer_ref(g->layer);
	g->point->fit.memory_mb = g->spec.memory_mb;
	g->point->fit.cpus = g->spec.cpus;
	g->point->fit.network = g->spec.network;
	g->point->fit.root = g->spec.root;
	g->point->fit.layer = g->layer;
	channel_push(&g->channel, f, CHANNEL_BULK); /* behind all that is queued */
	channel_hold(&g->channel, true);
	return 0;
}
