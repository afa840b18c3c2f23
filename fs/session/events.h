/* SPDX-License-Identifier: Apache-2.0 */
/* The event log: JSON Lines of everything that happens. */
#ifndef XSBX_FS_SESSION_EVENTS_H
#define XSBX_FS_SESSION_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "fs/request/waitlist.h"
#include "vm/base/record.h"

#define EVENTS_KEPT 1000u /* newest lines, which a new reader gets */

/* Precision of numbers that are not integers: times to tens of microseconds, without digits that only
 * show the binary approximation of 0.087. */
#define REAL_DIGITS 15

struct event;
struct question;
struct run;
struct sandbox_denied;
struct session;

/* A run has half a dozen events, on the way of its code and of its result; so they are only noted
 * there, and become lines when somebody looks. Where the log is open, that is at once. */
struct events {
	struct event *kept[EVENTS_KEPT]; /* ring: number n is at n % EVENTS_KEPT */
	uint64_t next;			 /* number of the next event */
	uint64_t written;		 /* number of the first that is no line yet */
	uint64_t bytes;			 /* of all lines so far */
	unsigned readers;		 /* how many have it open */
	uint64_t put;			 /* number of the first that is not written down */
	uint64_t put_written;		 /* `written` as it is written down */
	struct timespec mtime;
	struct waitlist wait; /* readers of all; those of a session's wait there */
};

void events_init(struct events *ev);
void events_fini(struct events *ev);

/* Adds a line {time, event: @kind, session?, words: @words}. @s may be NULL. */
void events_add(struct events *ev, struct session *s, const char *kind, const char *words);
/* Adds a line about a run: its number, state, and when it has ended, status and times. */
void events_add_run(struct events *ev, struct session *s, const struct run *r);
/* Adds a line about a refusal by a network; @unreported refusals before it have no line. */
void events_add_denied(struct events *ev, struct session *s, const struct sandbox_denied *what,
		       unsigned unreported);

/* Adds a line about a question to somebody who may allow it: it was "asked" or "decided". @what: that is asked for; @unreported
 * lines before it are missing. */
void events_add_question(struct events *ev, struct session *s, const char *kind,
			 const struct question *q, const char *what, unsigned unreported);

/* Number of the oldest event that is kept. */
uint64_t events_first(const struct events *ev);

/* Is event number @n about this session? NULL: about any, or none. */
bool events_concern(const struct events *ev, uint64_t n, const struct session *s);

/* Makes lines of all events, for the functions below. */
void events_write(struct events *ev);

/* Offset of the oldest line, counted from the first byte ever; line number @n. */
uint64_t events_first_byte(const struct events *ev);
const char *events_line(const struct events *ev, uint64_t n);

/* For a daemon that comes after this one: appends fields of the log, and of number @n, if that is
 * kept. What is no line yet stays none. */
void events_put(const struct events *ev, struct buf *out);
void events_put_one(const struct events *ev, uint64_t n, struct buf *out);

/* Likewise there, into a log that is empty; behind that of the log, in any order. Return: 0,
 * -EBADMSG, -ENOMEM. */
int events_get(struct events *ev, struct record_reader fields);
int events_get_one(struct events *ev, struct record_reader fields);

/* Behind them all. Return: 0, or -EBADMSG: some are missing. */
int events_join(struct events *ev);

/* A text as an array of its lines. Return: a new reference, or NULL. */
struct json_t *events_lines(const char *text);

#endif
