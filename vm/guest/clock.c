/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps a guest's wall clock in step with the host's. */
#include "clock.h"

#include <errno.h>
#include <time.h>

#include "internal.h"

/*
 * Theory of operation
 * -------------------
 * HELLO contains the time at which it was written: a guest that reads it late, on a busy host by a
 * tenth of a second, would be late by that much. So the agent's time is queried right after HELLO. The
 * agent reads its clock between the query and the answer, so the error is known up to the round-trip
 * time. The correction that is sent back is a difference, not a time: it stays valid however long it
 * takes to arrive.
 *
 * If an answer took too long it is too imprecise, and the query is repeated, a few times. User code
 * only waits for that when it would have waited for the interpreter anyway.
 *
 * Guests drift, emulated ones in particular, and fall behind when the host sleeps. So the query is
 * repeated with heartbeats, above all for idle clones, to have their clocks correct when they are
 * used. One that has a clock of its own (`clock`) is asked, to see whether it lives, and not corrected.
 */

#define MS	    1000000
#define PRECISE_NS  (20 * MS) /* an answer within this is good enough */
#define TOLERATE_NS (2 * MS)  /* not worth a step of the clock */
#define ROUND_MAX   6u	      /* questions */

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

bool guest_clock_verdict(uint64_t sent, uint64_t guest, uint64_t received, int64_t *ret_delta)
{
	/* The guest is late by no less and no more than this. Wraps only for a guest that lies. */
	const int64_t least = (int64_t)(sent - guest), most = (int64_t)(received - guest);

	*ret_delta = 0;
	if (most < least)
		return false; /* the host's own clock was set back */
	if (least > TOLERATE_NS || most < -TOLERATE_NS)
		*ret_delta = least + (most - least) / 2;
	return most - least <= PRECISE_NS;
}

static void ask(struct guest *g, int64_t delta_ns)
{
	struct guest_clock *c = &g->clock;
	uint8_t payload[8];
	struct proto_out o = {payload, 0, sizeof(payload), false};

	put_u64(&o, (uint64_t)delta_ns);
	c->asked++;
	c->sent_ns = now_ns();
	channel_send(&g->channel, PROTO_CLOCK, ++c->id, payload, o.len);
}

void guest_clock_ask(struct guest *g)
{
	g->clock.asked = 0;
	g->clock.settled = false;
	ask(g, 0);
}

static void settle(struct guest *g)
{
	const bool held = g->clock.held;

	g->clock.settled = true;
	g->clock.held = false;
	if (held)
		guest_advance(g);
}

int guest_clock_answer(struct guest *g, const struct proto_header *h, struct proto_in *in)
{
	struct guest_clock *c = &g->clock;
	const uint64_t guest = get_u64(in);
	int64_t delta;
	bool precise;

	if (!get_end(in))
		return -EPROTO;
	if (h->id != c->id || c->settled)
		return 0;
	c->heard = true;
	precise = guest_clock_verdict(c->sent_ns, guest, now_ns(), &delta);
	if (*g->spec.clock) { /* it is wrong on purpose */
		precise = true;
		delta = 0;
	}
	if (delta || (!precise && c->asked < ROUND_MAX))
		ask(g, delta);
	if (precise || c->asked >= ROUND_MAX)
		settle(g);
	return 0;
}

bool guest_clock_hold(struct guest *g)
{
	struct guest_clock *c = &g->clock;

	c->held = c->heard && !c->settled;
	return c->held;
}
