/* SPDX-License-Identifier: Apache-2.0 */
/* What makes one guest different from the next: time, randomness, name. */
#ifndef XSBX_AGENT_GUEST_CLOCK_H
#define XSBX_AGENT_GUEST_CLOCK_H

#include <stddef.h>
#include <stdint.h>

/* The wall clock, in nanoseconds. */
uint64_t clock_now(void);

/**
 * clock_set() - Set the wall clock to the time at which a message was written
 * @realtime_ns: That time
 *
 * It can only be later now, so a clock that is a little ahead of it may well be right, and is left.
 *
 * Return: 0 or -errno.
 */
int clock_set(uint64_t realtime_ns);

/** clock_step() - Add to the wall clock. Return: 0 or -errno. */
int clock_step(int64_t delta_ns);

/**
 * clock_stir() - Credit the kernel's random generator with entropy and make it start anew
 * @random_fd: /dev/random
 * @entropy: Bytes nobody else knows
 * @len: How many, at most 64
 *
 * Return: 0 or -errno.
 */
int clock_stir(int random_fd, const uint8_t *entropy, size_t len);

/** clock_name() - Set the host name; a NUL or nothing in it leaves it. Return: 0 or -errno. */
int clock_name(const char *name, size_t len);

#endif
