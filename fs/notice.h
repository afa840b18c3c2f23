/* SPDX-License-Identifier: Apache-2.0 */
/* What a service manager hears of the mount, while it is there: that it is served, that the loop turns, and a line about it. */
#ifndef XSBX_FS_NOTICE_H
#define XSBX_FS_NOTICE_H

#include <stdbool.h>
#include <uv.h>

struct fs;
struct spawner;

#define NOTICE_STATUS_SIZE 200u

/*
 * Only in the foreground, where $NOTIFY_SOCKET is set, which all daemons of a mount have from the process that was started. That one
 * passes on what is said here: vm/spawn/herald.h. Embedded by its owner, zeroed.
 */
struct notice {
	uv_timer_t timer;
	struct fs *fs;
	struct spawner *spawner;
	bool on;
	char said[NOTICE_STATUS_SIZE]; /* the last line */
};

/* From now on the loop's turning is told, several times in the time that systemd allows ($WATCHDOG_USEC). In the first daemon, and in
 * each of its heirs when it is the daemon. */
void notice_start(struct notice *n, uv_loop_t *loop, struct fs *fs, struct spawner *sp);

/* The mount is there. */
void notice_ready(struct notice *n);

/* The end has begun; until notice_close() the loop's turning is told still. */
void notice_end(struct notice *n, const char *why);
void notice_close(struct notice *n);

/* The line: how many sessions and sandboxes there are, and which images are being made. For tests too. */
void notice_describe(struct fs *fs, char *ret_line, size_t size);

/* How often, in ms, for this $WATCHDOG_USEC, or NULL. */
uint64_t notice_interval_ms(const char *watchdog_usec);

#endif
