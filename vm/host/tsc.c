/* SPDX-License-Identifier: Apache-2.0 */
/* The frequency of the host's time stamp counter. */
#include "tsc.h"

#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/*
 * A stock kernel on an emulated microvm has nothing to calibrate the counter with, so it is told
 * the frequency, and its clock is as precise as that number. The processor's own information (CPUID
 * leaf 0x15) is often missing in a virtual machine, and rounded; a measurement against the host's
 * clock has neither problem, and makes the guest share that clock's error. Each sample reads the
 * counter before and after the clock and keeps the closest of several pairs, so that interruptions
 * don't matter.
 *
 * The counter of arm64 tells its frequency itself, to a guest too.
 */

#define BRACKETS   16
#define ENOUGH_NS  20000000ull /* from here on the error is below 10 ppm */
#define NS_PER_SEC 1000000000ull

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

static uint64_t ticks(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#else
	uint64_t n;

	__asm__ volatile("isb\n	mrs	%0, cntvct_el0" : "=r"(n));
	return n;
#endif
}

void tsc_sample(struct tsc_sample *ret_sample)
{
	uint64_t narrowest = UINT64_MAX;

	for (unsigned i = 0; i < BRACKETS; i++) {
		const uint64_t before = ticks();
		const uint64_t ns = now_ns();
		const uint64_t after = ticks();

		if (after - before >= narrowest)
			continue;
		narrowest = after - before;
		ret_sample->ticks = before + narrowest / 2;
		ret_sample->ns = ns;
	}
}

uint64_t tsc_khz_between(const struct tsc_sample *a, const struct tsc_sample *b)
{
	const uint64_t ns = b->ns - a->ns;

	if (b->ns <= a->ns || ns < ENOUGH_NS || b->ticks <= a->ticks)
		return 0;
	return (uint64_t)((unsigned __int128)(b->ticks - a->ticks) * 1000000u / ns);
}

uint64_t tsc_khz(const struct tsc_sample *since)
{
	struct tsc_sample now;
	uint64_t khz;

	do {
		tsc_sample(&now);
		khz = tsc_khz_between(since, &now);
	} while (!khz && now.ns - since->ns < ENOUGH_NS);
	return khz;
}
