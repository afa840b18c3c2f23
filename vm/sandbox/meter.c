/* SPDX-License-Identifier: Apache-2.0 */
/* Counts what sandboxes take from the host. See meter.h. */
#include "meter.h"

#include "internal.h"
#include "network.h"

#define TICK_MS	 1000u /* those that compute are looked at so often, */
#define ALL_EACH 5u    /* ... and the others each so many times, in turn */
#define LEAST_US 5000u /* less is told later: it would have to be written down each time */

void meter_begin(struct sandbox *s)
{
	s->meter.base_us = guest_used_us(s->guest);
	s->meter.told_us = 0;
}

static uint64_t bytes_of(const struct sandbox *s)
{
	struct sandbox_traffic t;

	return sandbox_traffic(s, &t) == 0 ? t.bytes_in + t.bytes_out : 0;
}

static void tell(struct sandbox *s, uint64_t least_us)
{
	const struct vm *vm = s->vm;
	struct meter *m = &s->meter;
	const uint64_t all = s->guest ? guest_used_us(s->guest) : 0;
	const uint64_t bytes = bytes_of(s), before = m->base_us + m->told_us;
	const uint64_t more_us = all > before ? all - before : 0;
	const uint64_t more_bytes = bytes > m->told_bytes ? bytes - m->told_bytes : 0;

	if (more_us < least_us && !more_bytes)
		return;
	m->told_us += more_us;
	m->told_bytes += more_bytes;
	if (s->was_up)
		sandbox_touch(s);
	if (vm->events && vm->events->spent && !m->free)
		vm->events->spent(vm->data, m->payer, more_us, more_bytes);
}

void meter_look(struct sandbox *s)
{
	tell(s, 1);
}

void meter_over(struct sandbox *s)
{
	tell(s, 1);
	s->meter.base_us = s->meter.told_us = 0;
}

static void on_tick(uv_timer_t *timer)
{
	struct vm *vm = timer->data;
	const unsigned turn = vm->meterings++ % ALL_EACH;
	struct sandbox *s;
	unsigned n = 0;

	TAILQ_FOREACH(s, &vm->sandboxes, link) {
		if (n++ % ALL_EACH != turn && !sandbox_computes(s))
			continue;
		tell(s, LEAST_US);
		network_ask_traffic(s);
	}
	if (TAILQ_EMPTY(&vm->sandboxes))
		uv_timer_stop(timer);
}

void meter_start(struct vm *vm)
{
	if (!vm->ctx.closing && !uv_is_active((uv_handle_t *)&vm->metering))
		uv_timer_start(&vm->metering, on_tick, TICK_MS, TICK_MS);
}
