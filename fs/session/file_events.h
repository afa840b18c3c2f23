/* SPDX-License-Identifier: Apache-2.0 */
/* What changes below files/: lines for those who have files.events open. */
#ifndef XSBX_FS_SESSION_FILE_EVENTS_H
#define XSBX_FS_SESSION_FILE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "fs/request/handle.h"
#include "fs/request/trail.h"
#include "fs/request/waitlist.h"
#include "vm/base/buf.h"

struct sandbox_change;
struct session;

/*
 * Theory of operation
 * -------------------
 * The agent watches while somebody has the node open, and not otherwise. Each open begins with the
 * line that says it is watching (then it is `bound`): without a sandbox, or with one that is not up
 * yet, that is at once, for the agent is asked to watch before anything else is asked of it.
 *
 * There can be many readers, who read or do not, and a program can make a great many changes. So
 * what happens is written once, to the `log` of the session. An open has bytes of its own in
 * `text`, from its offset `base` on: that line, and what was said to it alone. Behind these it goes
 * on with the log from `cursor` on, which is a position in all that was ever written to the log;
 * the log has what is from `start` on. `expected` is the offset of the end of what was read. Who
 * reads at another offset, because that was dropped, or because he takes the size of another open
 * for his own (as tail(1)), gets what is nearest. What was read stays for a while, for shells read
 * more than a line, and go back.
 *
 * From time to time the log is cut. Who is behind by more than FILE_EVENTS_KEPT then loses all that
 * he has not read, and a line of his own says so; but a line of which the beginning was read stays,
 * as one of his own. So does that the sandbox is gone, for another one has other files.
 *
 * Of what the agent can't watch, it tells before it is watching. That is `blind`, for those who
 * wait for it.
 */
#define FILE_EVENTS_KEPT  (256u << 10) /* bytes of the log after it was cut */
#define FILE_EVENTS_MORE  (192u << 10) /* and it is cut when it has so many more */
#define FILE_EVENTS_BLIND (64u << 10)  /* with more, all is unseen */
#define FILE_EVENTS_OWN	  (4u << 20)   /* bytes of their own, of all readers of a session */

enum file_events_state {
	FILE_EVENTS_OFF,
	FILE_EVENTS_ASKED, /* the agent looks at all directories first */
	FILE_EVENTS_ON,
	FILE_EVENTS_FAILED, /* it can't watch */
};

struct file_events {
	enum file_events_state state;
	TAILQ_HEAD(, handle) readers;
	unsigned nnew, nbound; /* of these: who wait to be watching, and who are */
	uint64_t seq;	       /* of the next line */
	struct buf log;
	uint64_t start; /* position of its first byte */
	struct trail trail;
	size_t granted;	  /* by quota_check() */
	struct buf blind; /* what those will not see who are not watching yet */
	bool blind_lost;  /* that is too much, or was not kept */
	size_t own;	  /* bytes of all their texts */
	struct waitlist wait;
};

/* Somebody has opened the node; closes it. */
void file_events_open(struct handle *h);
void file_events_close(struct handle *h);

/* What was told at this offset: @ret_n bytes, at most @size. NULL: nothing yet. */
const char *file_events_text(struct handle *h, uint64_t offset, size_t size, size_t *ret_n);

/* Is there more than what was read? */
bool file_events_unread(const struct handle *h);

/* The size to show of this inode number: that of what was opened by it, or 0. */
uint64_t file_events_size(const struct session *s, uint64_t ino);

/* The session's sandbox is up, and was sent nothing yet; is gone; has told something. */
void file_events_ready(struct session *s);
void file_events_gone(struct session *s);

/* Without one, files/ is another from now on. */
void file_events_anew(struct session *s);
void file_events_changed(struct session *s, const struct sandbox_change *c);

#endif
