/* SPDX-License-Identifier: Apache-2.0 */
/* A clock in place of libuv's: time goes on only when a test says so. */
#ifndef XSBX_CLOCK_FAKE_H
#define XSBX_CLOCK_FAKE_H

#include <stdbool.h>
#include <stdint.h>

/* Back to the beginning, with no timers. */
void clock_reset(void);

/* Lets @ms pass; timers that become due are called on the way, each at its time. */
void clock_advance(uint64_t ms);

/* When the next timer is due, counted from now; UINT64_MAX if there is none. */
uint64_t clock_next(void);

/* Does what was given to uv_queue_work(), and what comes of it. Until then it has not begun: a disk that
 * hangs. */
void clock_work(void);

/* The same of the first of it alone. Return: was there any? */
bool clock_work_one(void);
/* Is there any? */
bool clock_has_work(void);

#endif
