/* SPDX-License-Identifier: Apache-2.0 */
/* What runs and jobs are called where somebody asks who wrote a file, and how that is shown. */
#ifndef XSBX_FS_SESSION_AUTHOR_H
#define XSBX_FS_SESSION_AUTHOR_H

#include <stddef.h>
#include <stdint.h>

#include "agent/protocol.h"

struct session;

/*
 * What the sandbox keeps is `run 7 of demo:18f3a2b04c` or `job build of demo:18f3a2b04c`, and outlives the session: a copy of the
 * session has it, too. The number is the time of the session's creation, by which its own names are told from those of another one
 * that was called the same. Shown are `run 7` and `job build` of the session that is asked, and `run 7 of demo` of others.
 */

#define AUTHOR_SHOWN (PROTO_ORIGIN_MAX + 1)

struct author {
	char text[PROTO_ORIGIN_MAX + 1];
};

struct author author_of_run(const struct session *s, uint32_t number);
struct author author_of_job(const struct session *s, const char *name);

/**
 * author_show() - Make of what a sandbox says what its user sees
 * @s: Session that was asked
 * @said: Text, printable, not trusted otherwise
 * @len: Its length, PROTO_ORIGIN_MAX at most
 * @ret_text: AUTHOR_SHOWN bytes
 *
 * Return: its length.
 */
size_t author_show(const struct session *s, const char *said, size_t len, char *ret_text);

#endif
