/* SPDX-License-Identifier: Apache-2.0 */
/* One timer for all deadlines: it is set to the earliest, and its callback checks all of them. */
#ifndef XSBX_FS_REQUEST_ALARM_H
#define XSBX_FS_REQUEST_ALARM_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* Embedded by its owner, who sets `ring` and `data` before alarm_init(). */
struct alarm {
	/* Checks all deadlines. Return: the next uv_now() at which there is one, or UINT64_MAX. */
	uint64_t (*ring)(void *data, uint64_t now);
	void *data;

	uv_timer_t timer;
	uint64_t at; /* uv_now(), or UINT64_MAX if it is not set */
	bool closed;
};

void alarm_init(struct alarm *a, uv_loop_t *loop);

/* Makes sure that `ring` is called at @when (uv_now()) at the latest. */
void alarm_set(struct alarm *a, uint64_t when);

/* Disables it permanently. */
void alarm_close(struct alarm *a);

#endif
