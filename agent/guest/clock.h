/* SPDX-License-Identifier: Apache-2.0 */
/* Per-guest state: time, entropy, host name. */
#ifndef XSBX_AGENT_GUEST_CLOCK_H
#define XSBX_AGENT_GUEST_CLOCK_H

#include <stddef.h>
#include <stdint.h>

/* The wall clock, in nanoseconds. */
uint64_t clock_now(void);

/**
 * clock_set() - Set the wall clock to the time at which a message was sent
 * @realtime_ns: That time
 *
 * It is later by now, so a clock that is slightly ahead may be right, and is not changed.
 *
 * Return: 0 or -errno.
 */
int clock_set(uint64_t realtime_ns);

/** clock_begin() - Set the wall clock to exactly this. Return: 0 or -errno. */
int clock_begin(uint64_t realtime_ns);

/** clock_step() - Add to the wall clock. Return: 0 or -errno. */
int clock_step(int64_t delta_ns);

/**
 * clock_stir() - Add entropy to the kernel's random number generator, and reseed it
 * @random_fd: /dev/random
 * @entropy: Secret random bytes
 * @len: How many, at most 64
 *
 * Return: 0 or -errno.
 */
int clock_stir(int random_fd, const uint8_t *entropy, size_t len);

/** clock_name() - Set the host name, unless it is empty or contains a NUL. Return: 0 or -errno. */
int clock_name(const char *name, size_t len);

#endif
