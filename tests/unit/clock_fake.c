/* SPDX-License-Identifier: Apache-2.0 */
/* A clock in place of libuv's: time goes on only when a test says so. */
#include "clock_fake.h"

#include <assert.h>
#include <stddef.h>
#include <uv.h>

#define TIMERS_MAX 8
#define BEGINNING  1000000u /* so that no time is 0 by chance */

static struct {
	uv_timer_t *timer;
	uv_timer_cb fn; /* NULL: stopped */
	uint64_t due, repeat;
} timers[TIMERS_MAX];

#define WORK_MAX 4

static struct {
	uv_work_t *work;
	uv_work_cb fn;
	uv_after_work_cb done;
} queue[WORK_MAX];
static unsigned nqueue;

static uint64_t now = BEGINNING;

void clock_reset(void)
{
	for (int i = 0; i < TIMERS_MAX; i++)
		timers[i].timer = NULL;
	now = BEGINNING;
	nqueue = 0;
}

static int slot_of(const uv_timer_t *timer)
{
	for (int i = 0; i < TIMERS_MAX; i++)
		if (timers[i].timer == timer)
			return i;
	assert(!"a timer that was initialised and not closed");
	return -1;
}

static int next_timer(void)
{
	int best = -1;

	for (int i = 0; i < TIMERS_MAX; i++)
		if (timers[i].timer && timers[i].fn &&
		    (best < 0 || timers[i].due < timers[best].due))
			best = i;
	return best;
}

uint64_t clock_next(void)
{
	int i = next_timer();

	if (i < 0)
		return UINT64_MAX;
	return timers[i].due > now ? timers[i].due - now : 0;
}

void clock_advance(uint64_t ms)
{
	uint64_t until = now + ms;
	unsigned turns = 0;
	int i;

	while ((i = next_timer()) >= 0 && timers[i].due <= until) {
		uv_timer_cb fn = timers[i].fn;

		turns++;
		assert(turns < 100000); /* a timer that starts itself anew without time passing */
		if (timers[i].due > now)
			now = timers[i].due;
		timers[i].due += timers[i].repeat;
		if (!timers[i].repeat)
			timers[i].fn = NULL;
		fn(timers[i].timer);
	}
	now = until;
}

bool clock_has_work(void)
{
	return nqueue > 0;
}

bool clock_work_one(void)
{
	uv_work_t *work;
	uv_after_work_cb done;

	if (!nqueue)
		return false;
	work = queue[0].work;
	done = queue[0].done;
	queue[0].fn(work);
	for (unsigned i = 1; i < nqueue; i++)
		queue[i - 1] = queue[i];
	nqueue--;
	done(work, 0);
	return true;
}

void clock_work(void)
{
	while (clock_work_one())
		;
}

/* ---- what stands in for libuv ---- */

uint64_t uv_now(const uv_loop_t *loop)
{
	(void)loop;
	return now;
}

int uv_queue_work(uv_loop_t *loop, uv_work_t *work, uv_work_cb fn, uv_after_work_cb done)
{
	(void)loop;
	assert(nqueue < WORK_MAX);
	queue[nqueue].work = work;
	queue[nqueue].fn = fn;
	queue[nqueue++].done = done;
	return 0;
}

int uv_timer_init(uv_loop_t *loop, uv_timer_t *timer)
{
	int i = slot_of(NULL);

	(void)loop;
	timers[i].timer = timer;
	timers[i].fn = NULL;
	return 0;
}

int uv_timer_start(uv_timer_t *timer, uv_timer_cb fn, uint64_t timeout, uint64_t repeat)
{
	int i = slot_of(timer);

	timers[i].fn = fn;
	timers[i].due = now + timeout;
	timers[i].repeat = repeat;
	return 0;
}

void uv_close(uv_handle_t *handle, uv_close_cb fn)
{
	timers[slot_of((uv_timer_t *)handle)].timer = NULL;
	assert(!fn);
}
