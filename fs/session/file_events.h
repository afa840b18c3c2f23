/* SPDX-License-Identifier: Apache-2.0 */
/* What changes below files/: lines for those who have files.events open. */
#ifndef XSBX_FS_SESSION_FILE_EVENTS_H
#define XSBX_FS_SESSION_FILE_EVENTS_H

#include <stdint.h>

#include "fs/request/handle.h"
#include "fs/request/waitlist.h"

struct sandbox_change;
struct session;

/*
 * Theory of operation
 * -------------------
 * The agent watches while somebody has the node open, and not otherwise. Each open has lines of its own, in `text`, from
 * the one that says it is watching (`bound`): without a sandbox, or with one that is not up yet, that is at once,
 * for the agent is asked to watch before anything else is asked of it.
 *
 * The text is what was told from offset `base` on. What was read stays for a while, for shells read more than a line, and go
 * back; `expected` is the end of what was. Who reads at another offset, because that was dropped, or because he takes
 * the size of another open for his own (as tail(1)), gets what is nearest.
 *
 * Lines that nobody reads are dropped beyond FILE_EVENTS_KEPT, all together, and one says so; but a line of which the
 * beginning was read stays. So does that the sandbox is gone, for another one has other files.
 */
#define FILE_EVENTS_KEPT (256u << 10) /* bytes that were not read */
#define FILE_EVENTS_READ (64u << 10)  /* bytes that were */

enum file_events_state {
	FILE_EVENTS_OFF,
	FILE_EVENTS_ASKED, /* the agent looks at all directories first */
	FILE_EVENTS_ON,
	FILE_EVENTS_FAILED, /* it can't watch */
};

struct file_events {
	enum file_events_state state;
	TAILQ_HEAD(, handle) readers;
	uint64_t seq; /* of the next line */
	struct waitlist wait;
};

/* Somebody has opened the node; closes it. */
void file_events_open(struct handle *h);
void file_events_close(struct handle *h);

/* What was told at this offset: @ret_n bytes, at most @size. NULL: nothing yet. */
const char *file_events_text(struct handle *h, uint64_t offset, size_t size, size_t *ret_n);

/* The size to show: that of the oldest open, or 0. */
uint64_t file_events_size(const struct session *s);

/* The session's sandbox is up, and was sent nothing yet; is gone; has told something. */
void file_events_ready(struct session *s);
void file_events_gone(struct session *s);
void file_events_changed(struct session *s, const struct sandbox_change *c);

#endif
