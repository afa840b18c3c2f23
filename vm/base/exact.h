/* SPDX-License-Identifier: Apache-2.0 */
/* What of a sandbox is to be the same in another one: the values of `seed` and `clock`. */
#ifndef XSBX_VM_BASE_EXACT_H
#define XSBX_VM_BASE_EXACT_H

#include <stdbool.h>
#include <stdint.h>

/**
 * exact_seed() - Read a seed
 * @text: "", NULL, or a number below 2^64, in decimal
 * @ret_seed: It
 *
 * Return: 1, 0 if there is none, -EINVAL.
 */
int exact_seed(const char *text, uint64_t *ret_seed);

/**
 * exact_clock() - Read a time at which a clock begins
 * @text: "", NULL, or 2026-01-01T00:00:00, of UTC, and perhaps "Z", " running" or " fixed" behind it
 * @ret_ns: Nanoseconds from the epoch
 * @ret_fixed: Does each run begin at that time?
 *
 * Return: 1, 0 if there is none, -EINVAL.
 */
int exact_clock(const char *text, uint64_t *ret_ns, bool *ret_fixed);

#endif
