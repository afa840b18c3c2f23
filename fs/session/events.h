/* SPDX-License-Identifier: Apache-2.0 */
/* The `events` node: JSON Lines of everything that happens. */
#ifndef XSBX_FS_SESSION_EVENTS_H
#define XSBX_FS_SESSION_EVENTS_H

#include <stdint.h>

#include "fs/request/handle.h"

#define EVENTS_KEPT 1000u /* newest lines that a new reader still gets */
#define EVENTS_IDLE_S \
	30u /* a reader that has waited this long without a line gets end of file,
			     * so that a program which walks the whole tree gets past it */

struct fs;
struct run;
struct sandbox_denied;
struct session;

struct events {
	struct fs *fs;
	char *line[EVENTS_KEPT]; /* ring: number n is at n % EVENTS_KEPT; terminated */
	uint64_t next;		 /* number of the next event */
	uint64_t bytes;		 /* of all lines so far */
	struct timespec mtime;
	struct waitlist wait;
};

void events_init(struct events *ev, struct fs *fs);
void events_fini(struct events *ev);

/* Adds a line {time, event: @kind, session?, words: @words}. @s may be NULL. */
void events_add(struct events *ev, const struct session *s, const char *kind, const char *words);
/* Adds a line about a run: its number, state, and when it has ended, status and times. */
void events_add_run(struct events *ev, const struct session *s, const struct run *r);
/* Adds a line about something that a network refused; @unreported refusals before it have no line. */
void events_add_denied(struct events *ev, const struct session *s,
		       const struct sandbox_denied *what, unsigned unreported);

/* The size to show: bytes of all lines that are kept. For @h, if not NULL, as its offsets count. */
uint64_t events_size(const struct events *ev, const struct handle *h);
/* Called at alarms: gives waiting readers their end of file. Return: next uv_now() or UINT64_MAX. */
uint64_t events_tick(struct events *ev, uint64_t now);

extern const struct handle_ops events_ops;

#endif
