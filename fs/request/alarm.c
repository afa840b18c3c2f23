/* SPDX-License-Identifier: Apache-2.0 */
/* One timer for all deadlines. */
#include "alarm.h"

static void on_timer(uv_timer_t *timer)
{
	struct alarm *a = timer->data;
	uint64_t next;

	a->at = UINT64_MAX;
	next = a->ring(a->data, uv_now(timer->loop));
	if (next != UINT64_MAX)
		alarm_set(a, next);
}

void alarm_init(struct alarm *a, uv_loop_t *loop)
{
	a->at = UINT64_MAX;
	uv_timer_init(loop, &a->timer);
	a->timer.data = a;
}

void alarm_set(struct alarm *a, uint64_t when)
{
	const uint64_t now = uv_now(a->timer.loop);

	if (a->closed || when >= a->at)
		return;
	a->at = when;
	uv_timer_start(&a->timer, on_timer, when > now ? when - now : 0, 0);
}

void alarm_close(struct alarm *a)
{
	a->closed = true;
	uv_close((uv_handle_t *)&a->timer, NULL);
}
