/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the frequency of the host's time stamp counter: an emulated guest sees the same counter. */
#ifndef XSBX_VM_HOST_TSC_H
#define XSBX_VM_HOST_TSC_H

#include <stdint.h>

/* The counter and the time at one moment. */
struct tsc_sample {
	uint64_t ticks, ns;
};

void tsc_sample(struct tsc_sample *ret_sample);

/* The frequency between two samples. Return: kHz, 0 if they are too close together to tell. */
uint64_t tsc_khz_between(const struct tsc_sample *a, const struct tsc_sample *b);

/* Measured since a sample, the better the longer ago that was taken; waits up to 20 ms if that has
 * only just been. Return: kHz. */
uint64_t tsc_khz(const struct tsc_sample *since);

#endif
