/* SPDX-License-Identifier: Apache-2.0 */
/* What a session was let through to while it learned, as the shortest rules that would have allowed it. */
#ifndef XSBX_FS_SESSION_LESSONS_H
#define XSBX_FS_SESSION_LESSONS_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "vm/base/buf.h"

#define LESSONS_BYTES (1u << 20) /* of all of them as text, at most */
#define LESSONS_MAX   256	 /* hosts and ports; how many more there were is said */

struct sandbox_logged;

/* All zeroes is empty and valid. */
struct lessons {
	struct lesson *lesson; /* by host, then port */
	size_t n;
	unsigned more; /* connections and requests to others, which there was no room for */
	struct timespec mtime;
};

/* Learns from a connection or request that has ended. Those that were refused teach nothing. */
void lessons_note(struct lessons *l, const struct sandbox_logged *what);

/**
 * lessons_render() - Write the rules
 * @l: What was learnt
 * @out: Rules, one a line, each of which vm/base/rules.h reads; and a comment if there is something that they do not allow
 *
 * A host of which something was passed on without being looked into is allowed as a whole; of others, the methods that were used,
 * below the directory that all paths have in common.
 *
 * Return: as buf_append().
 */
int lessons_render(const struct lessons *l, struct buf *out);

/* Reads what lessons_render() has written. Return: 0, -EBADMSG, -ENOMEM. */
int lessons_parse(struct lessons *l, const char *text);

void lessons_fini(struct lessons *l);

#endif
