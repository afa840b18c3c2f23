/* SPDX-License-Identifier: Apache-2.0 */
/* Agents that are late because what they run in gets no processor. See starved.h. */
#include "starved.h"

#include "internal.h"
#include "vm/host/host.h"

/* 0 where it is not known. */
static uint64_t waited_ms(const struct guest *g)
{
	struct guest_info info;
	uint64_t ms = 0;

	guest_info(g, &info);
	if (!g->all->host || info.backend.pid <= 0 ||
	    host_waited_ms(g->all->host, info.backend.pid, &ms) < 0)
		return 0;
	return ms;
}

void starved_begin(struct starved *st, const struct guest *g)
{
	*st = (struct starved){
		.on = true, .at_ms = uv_now(g->all->ctx->loop), .waited_ms = waited_ms(g)};
}

void starved_look(struct starved *st, const struct guest *g)
{
	const uint64_t now = uv_now(g->all->ctx->loop), waited = waited_ms(g);
	const uint64_t past = MIN(now - st->at_ms, (uint64_t)STARVED_STEP_MS);
	const uint64_t without = waited > st->waited_ms ? waited - st->waited_ms : 0;

	st->all_ms += past;
	st->own_ms += past - MIN(without, past);
	st->at_ms = now;
	st->waited_ms = waited;
}

bool starved_over(struct starved *st, const struct guest *g, uint64_t own_ms)
{
	starved_look(st, g);
	return st->own_ms >= own_ms || st->all_ms >= STARVED_MOST_MS;
}

bool starved_beat(struct starved *st, const struct guest *g)
{
	const uint64_t before = st->own_ms;

	if (!st->on) {
		starved_begin(st, g);
		return false;
	}
	return !starved_over(st, g, UINT64_MAX) && st->own_ms - before < STARVED_STEP_MS / 2;
}
